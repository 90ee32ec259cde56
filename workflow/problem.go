package workflow

import "github.com/pawl-dev/pawl/internal/document"

// A Problem is one fault of a workflow file.
type Problem = document.Problem

// Problems is the error of a workflow that is refused: all its faults, in the order of
// the file. It is of kind pawl.Invalid.
type Problems = document.Problems
