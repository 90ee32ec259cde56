package workflow

// outputs decides the output mode of steps without one in the file: text if an
// expression uses the output, else none. It also decides which fan-outs list the
// outputs of their instances.
func (c *compilation) outputs() {
	used := c.used()
	for i := range c.d.Nodes {
		n := &c.d.Nodes[i]
		n.used = used.has(i + 1)
		written := n.Output != "" && n.Output != OutputNone && !n.Kind.Encodes() // the mode of a handler is a default
		n.Gathers = n.Fans() && (written || n.used || c.d.handsOn(n))
		switch {
		case n.Kind.Waits() || n.Output != "":
		case n.used:
			n.Output = OutputText
		default:
			n.Output = OutputNone
		}
	}
}

// used returns the nodes whose output an expression of the file names.
func (c *compilation) used() *nodeSet {
	used := &nodeSet{}
	for _, p := range c.programs {
		for _, ref := range p.refs.steps {
			if n := c.d.byID[ref.id]; n != 0 && !ref.status {
				used.add(n)
			}
		}
	}
	return used
}

// handsOn reports whether the output of n is in the input of a program or a handler
// that needs it directly, and so may read it.
func (d *Definition) handsOn(n *Node) bool {
	for _, next := range n.Dependents {
		switch d.Nodes[next-1].Kind {
		case KindCommand, KindRun, KindHandler, KindCrew, KindLoad:
			return true
		}
	}
	return false
}

// misses reports whether an expression uses an output of n that the same step of an
// older version does not keep.
func (n *Node) misses(older *Node) bool {
	return n.used && (n.Output != older.Output || n.Gathers != older.Gathers)
}
