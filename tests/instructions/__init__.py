"""What calls cost in instructions, and the table that they are compared with."""
