package postgres

// statements are prepared on every connection of the pool.
var statements = []*statement{
	begin, rollback, commit, now,
	lockPools, countPools, takeKeys, readKeys, readSchedules, readWorkers, watchWorkers, readJobs, readUnlocked, readVersions, readSignals,
	readSteps, readNamed, readAhead, claimOne, claimMany,
	newDefinitions, newWorkers, newJobs, newSteps, setWorkers, setJobs, setSteps,
	moveJobs.read, takeSteps.read, endSteps.read, moveSteps.read, moveJobs.alone, takeSteps.alone, endSteps.alone, moveSteps.alone, moveJobs.known, takeSteps.known, endSteps.known, moveSteps.known,
	verifyWorker, verifyWorkers, verifyJobs, verifySteps, stamped,
	newSchedules, setSchedules, newVersions, setQuotas, dropQuotas, newSignals, setTaken,
	newEntries, newWorkerRows, newScheduleRows, newRefusals, setAnswers, dropKeys,
	agenda,
	newChunks, lazily,
}
