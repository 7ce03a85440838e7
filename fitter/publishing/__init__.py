"""Publishing a judge as a disabled evaluator, and proving that it is there."""
