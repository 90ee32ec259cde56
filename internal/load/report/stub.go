package report

// Write is to be replaced.
func Write(dir string, run Run) (violations []string, err error) { return nil, nil }
