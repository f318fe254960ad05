"""What people and agents do in documents, recorded for those who were not there."""
