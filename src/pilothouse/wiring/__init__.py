"""What knows several groups: it makes the parts and joins them."""
