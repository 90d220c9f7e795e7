package smasuite

import (
	"time"

	"ciddk/validate"
	"ciddk/validate/req"
)

// The rules of responses and Sets at a port as it is in use: requests come from QP0 of another port, and the agent of
// the kit checks them before CA.LocalMAD of the driver executes them.
var kits = kitArea()

// direct returns the function of a case over the agent of open.
func direct(run func(p *port)) func(*validate.T) { return func(t *validate.T) { run(open(t)) } }

// kitArea returns the cases that run again over the kit's agent.
func kitArea() *validate.Area {
	a := linkArea()
	for _, c := range []struct {
		id, title string
		run       func(p *port)
		proves    *req.Requirement
	}{
		{"attribute", "attributes of switches and managers, and Sets of what is read only", answerAttribute,
			smaAnswer04},
		{"modifier", "blocks beyond the end of tables", answerModifier, smaAnswer05},
		{"data", "each attribute and block, read by requests with zeros and with ones as their data", answerData,
			smaAnswer07},
		{"key-set", "Set(PortInfo) with a wrong M_Key", keySet, smaKey01},
		{"key-get", "Get with a wrong M_Key at each level", keyGet, smaKey02},
		{"key-hidden", "M_Key in PortInfo at levels 0 and 1", keyHidden, smaKey03},
		{"key-violations", "count failed checks", keyViolations, smaKey04},
		{"key-lease", "a lease of one second that runs out", keyLease, smaKey05},
		{"key-repress", "a trap repress with a wrong M_Key", keyRepress, smaKey07},
		{"set-invalid", "one invalid component among valid changes", setInvalid, smaSet01},
		{"set-read-only", "other values in read-only components", setReadOnly, smaSet02},
		{"set-reregister", "ClientReregister", setReregister, smaSet04},
		{"set-guids", "write each block of the GUID table, and read all", setGUIDs, smaSet05},
		{"set-pkeys", "write each block of the P_Key table", setPKeys, smaSet06},
		{"component-set", "each component of PortInfo that a Set changes", componentSet, smaComp01},
		{"component-violations", "write other values than 0 to the counters of violations", componentViolations,
			smaComp03},
		{"query", "what subnet management reads, and what CA.Query returns", tableQuery, smaTable01},
	} {
		a.Case(validate.Case{ID: "sma.kit." + c.id, Title: c.title + ", at the kit's agent",
			Timeout: 30 * time.Second,
			Run: func(t *validate.T) {
				l := link(t)
				if t.Attr().HasHardwareAgents(l.ca.Port.Num) {
					t.Skip("the adapter has agents of its own, and the kit none")
				}
				c.run(l.port)
			}}, c.proves)
	}
	return a
}
