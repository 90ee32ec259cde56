package postgres

// statements are prepared on every connection of the pool.
var statements = []*statement{
	begin, rollback, commit, now,
	takeKeys, readKeys, readWorkers, readJobs, readUnlocked, readSteps, readNamed, claimOne, claimMany,
	newDefinitions, newWorkers, newJobs, newSteps, setWorkers, setJobs, setSteps,
	newEntries, newWorkerRows, newRefusals, setAnswers, dropKeys,
	markedSteps, markedJobs, dueRecords, nextDue, pendingJobs, orphans,
	newChunks, lazily,
}
