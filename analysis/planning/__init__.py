"""What a design will do before it is run: operating characteristics, decisions, the budget."""
