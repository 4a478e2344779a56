"""Sections of the report page: facts as HTML."""
