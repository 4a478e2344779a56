"""Numbers and sentences of the report page, gathered before anything is drawn."""
