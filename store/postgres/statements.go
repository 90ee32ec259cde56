package postgres

// statements are prepared on every connection of the pool.
var statements = []*statement{
	begin, rollback, commit, now,
	lockPools, countPools, takeKeys, readKeys, readSchedules, readWorkers, readJobs, readUnlocked, readVersions, readSignals,
	readSteps, readNamed, claimOne, claimMany,
	newDefinitions, newWorkers, newJobs, newSteps, setWorkers, setJobs, setSteps, moveJobs, takeSteps, endSteps, moveSteps,
	newSchedules, setSchedules, newVersions, setQuotas, dropQuotas, newSignals, setTaken,
	newEntries, newWorkerRows, newScheduleRows, newRefusals, setAnswers, dropKeys,
	agenda,
	newChunks, lazily,
}
