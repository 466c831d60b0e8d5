"""What the REST door and the page share: routes, visits, answers, and who signed in."""
