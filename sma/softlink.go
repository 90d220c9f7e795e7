package sma

import (
	"ciddk/ci"
	"ciddk/mad"
)

// A Link is what two ports have agreed on when their link comes up.
type Link struct {
	Width    uint8 // PortInfo.WidthActive: 1 = 1X, 2 = 4X, 4 = 8X, 8 = 12X; 0 keeps the last one
	Speed    uint8 // PortInfo.SpeedActive; 0 keeps the last one
	SpeedExt uint8 // PortInfo.SpeedExtActive
}

// CanTrain reports whether the link of a port is down and may come up: it polls or sleeps.
func (n *SoftNode) CanTrain(port uint8) bool {
	p := n.port(port)
	if p == nil || !p.kind.hasLink() {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return p.canTrain()
}

func (p *softPort) canTrain() bool {
	return ci.PortState(p.info.State) == ci.PortDown && p.info.PhysState != PhysDisabled
}

// LinkUp reports that the link of a port has come up: the port goes from Down to Init. It returns false if the port is
// disabled, or not down.
func (n *SoftNode) LinkUp(port uint8, l Link) bool {
	p := n.port(port)
	if p == nil || !p.kind.hasLink() {
		return false
	}
	n.mu.Lock()
	if !p.canTrain() {
		n.mu.Unlock()
		return false
	}
	i := &p.info
	i.State, i.PhysState = uint8(ci.PortInit), PhysLinkUp
	if l.Width != 0 {
		i.WidthActive = l.Width
	}
	if l.Speed != 0 {
		i.SpeedActive, i.SpeedExtActive = l.Speed, l.SpeedExt
	}
	p.publish()
	n.sw.PortStateChange = true
	n.mu.Unlock()
	n.hw.Changed(port, ChangeInit)
	n.trapLinkState(p)
	return true
}

// LinkDown reports that the link of a port has gone down, and that the port does phys now: PhysPolling, PhysSleep, or
// PhysDisabled until LinkReady. PhysNoChange selects PortInfo.LinkDownDefault. A port that is down is not changed,
// except for its physical state.
func (n *SoftNode) LinkDown(port uint8, phys uint8) {
	p := n.port(port)
	if p == nil || !p.kind.hasLink() {
		return
	}
	n.mu.Lock()
	old := ci.PortState(p.info.State)
	if phys == PhysNoChange {
		phys = p.info.LinkDownDefault
	}
	if old == ci.PortDown && p.info.PhysState == PhysDisabled {
		n.mu.Unlock()
		return
	}
	p.info.State, p.info.PhysState = uint8(ci.PortDown), phys
	p.publish()
	c := downChange(old)
	n.sw.PortStateChange = n.sw.PortStateChange || c != 0
	n.mu.Unlock()
	if c != 0 {
		n.hw.Changed(port, c)
		n.trapLinkState(p)
	}
}

// Activate makes an armed port active, as the first data packet that it receives does (IBTA volume 1, 7.2.7.2). It
// reports whether the port was armed.
func (n *SoftNode) Activate(port uint8) bool {
	p := n.port(port)
	if p == nil || p.state.Load() != uint32(ci.PortArmed) {
		return false
	}
	n.mu.Lock()
	armed := ci.PortState(p.info.State) == ci.PortArmed
	if armed {
		p.info.State = uint8(ci.PortActive)
		p.publish()
	}
	n.mu.Unlock()
	if armed {
		n.hw.Changed(port, ChangeActive)
	}
	return armed
}

// trapLinkState sends trap 128, if the node is a switch.
func (n *SoftNode) trapLinkState(p *softPort) {
	if p.kind != KindSwitchPort {
		return
	}
	n.raise(0, &mad.Notice{Generic: true, Type: mad.NoticeUrgent, Trap: mad.TrapLinkState})
}

// raise sends a trap, if the node has an agent. No lock is held.
func (n *SoftNode) raise(port uint8, t *mad.Notice) {
	n.mu.Lock()
	send := n.trap
	n.mu.Unlock()
	if send != nil {
		send(port, t)
	}
}
