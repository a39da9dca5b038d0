"""What each property of the layout is worth: the same records in many databases, read by the same reader."""
