package workflow

import "github.com/pawl-dev/pawl"

// ParseReference reads the name of a registered workflow, NAME or NAME@VERSION;
// version 0 is the newest. The error is of kind Invalid.
func ParseReference(text string) (name string, version int, err error) {
	const forms = "write NAME, or NAME@VERSION"
	m, fault := childOf(text)
	if fault != nil {
		return "", 0, &pawl.Error{Kind: pawl.Invalid, Message: fault.Message, Hint: forms}
	}
	name, named := m["name"].(string)
	if !named {
		return "", 0, &pawl.Error{Kind: pawl.Invalid, Message: text + " is a file, and not the name of a workflow", Hint: forms}
	}
	version, _ = m["version"].(int)
	return name, version, nil
}
