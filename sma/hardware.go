package sma

// Hardware is what a SoftNode controls: a link, a switch's crossbar, an adapter's port.
//
// The node calls the methods with no lock of the data path held, one Set at a time, after it has published the change
// and before the response is made. They may call the node's methods, except Execute.
type Hardware interface {
	// Train makes the link of a port go to a physical state: PhysPolling to train again, PhysSleep or PhysDisabled to
	// be down. The port is down when Train is called. When the link is up, the hardware calls SoftNode.LinkUp, which
	// may be before Train returns.
	Train(port uint8, phys uint8)
	// Changed reports a change of the attributes of a port.
	Changed(port uint8, c Change)
}

// NoHardware is a Hardware that does nothing.
type NoHardware struct{}

// Train does nothing.
func (NoHardware) Train(uint8, uint8) {}

// Changed does nothing.
func (NoHardware) Changed(uint8, Change) {}
