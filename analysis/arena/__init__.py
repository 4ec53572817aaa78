"""Where rules meet: families of instances, the field, the leaderboard."""
