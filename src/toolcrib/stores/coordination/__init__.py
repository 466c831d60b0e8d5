"""How replicas agree, whatever engine they agree through: counts, places, leases, news."""
