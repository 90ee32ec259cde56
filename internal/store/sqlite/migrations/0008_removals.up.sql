-- rolling
-- Jobs that retention has removed and whose steps, trail, signals and refused reports
-- have still to go: too many for one transaction. Their records are gone and anchored,
-- and nothing of them is shown. Programs of version 7 remove each job whole, beside
-- this; what they verify meanwhile shows a trail without a record.
CREATE TABLE removal (job INTEGER PRIMARY KEY) STRICT;
