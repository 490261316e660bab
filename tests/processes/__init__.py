"""Tickets between real processes: pairs, forwarding, kills, forgeries, limits."""
