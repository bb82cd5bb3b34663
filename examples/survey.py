"""A survey whose answers are private before they leave the respondent: from the question to the estimate."""

from shoal import local

question = local.choice(["never", "once", "often"], epsilon=1.0, title="How often did you skip a medication?")
print(question, f"{question.respondents_for(0.02):,} people for a standard error of 0.02", sep="\n")

# On each device: the report is all that leaves it.
answers = ["never", "once", "never", "often", "never", "once", "never", "never", "once", "never"] * 800
reports = [question.randomize(answer) for answer in answers]

# At the collector, who never sees an answer.
print(question.estimate(reports))
