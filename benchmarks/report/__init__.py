"""Tables, figures and verdicts from the rows in results/."""
