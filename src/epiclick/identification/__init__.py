"""What a log can identify: which contexts it connects, and which one anchors the scale."""
