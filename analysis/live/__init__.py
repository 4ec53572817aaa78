"""A trial's page, served: the same page, with forms to ask and to tell."""
