package fabric

import (
	"fmt"
	"sync"
	"sync/atomic"

	"ciddk/fabric/topology"
	"ciddk/sma"
)

// A cable joins two ports.
type cable struct {
	a, b *Port
	cut  bool // guarded by Fabric.mu
}

// pendingLinks are the ports whose links are to be trained: settle does it, when no agent is at work.
type pendingLinks struct {
	some atomic.Bool
	mu   sync.Mutex
	list []*Port
}

func (l *pendingLinks) add(p *Port) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, p)
	l.some.Store(true)
}

// settle trains the links that wait for it. The caller holds no lock, and is neither an agent nor its hardware.
func (f *Fabric) settle() {
	for f.pending.some.Load() {
		f.pending.mu.Lock()
		list := f.pending.list
		f.pending.list = nil
		f.pending.some.Store(false)
		f.pending.mu.Unlock()
		for _, x := range list {
			f.retrain(x)
		}
	}
}

// retrain takes down the link at a port, and brings it up again if its cable is whole and both ends can train. The
// caller holds no lock.
func (f *Fabric) retrain(p *Port) {
	f.mu.Lock()
	c := p.cable
	if c == nil {
		f.mu.Unlock()
		return
	}
	wasUp := c.a.peer.Swap(nil) != nil
	c.b.peer.Store(nil)
	f.mu.Unlock()
	for _, end := range [2]*Port{c.a, c.b} {
		if wasUp {
			end.count.linkDowned.Add(1)
		}
		end.node.soft.LinkDown(end.num, sma.PhysPolling)
	}
	l, ok := f.connect(c)
	if !ok {
		return
	}
	c.a.node.soft.LinkUp(c.a.num, l)
	c.b.node.soft.LinkUp(c.b.num, l)
}

// connect joins the ends of a cable, if it is whole and both can train. It returns what they agree on.
func (f *Fabric) connect(c *cable) (l sma.Link, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a, b := c.a, c.b
	if c.cut || a.cable != c || b.cable != c || !a.node.soft.CanTrain(a.num) || !b.node.soft.CanTrain(b.num) {
		return l, false
	}
	width := topology.WidthOf(a.widths() & b.widths())
	base, extended := a.speeds()
	base2, extended2 := b.speeds()
	speed := topology.SpeedOf(base&base2, extended&extended2)
	l.Width = width.Code()
	l.Speed, l.SpeedExt = speed.Codes()
	if l.Width == 0 || l.Speed == 0 {
		return l, false // no width or no speed that both ends have enabled
	}
	for _, p := range [2]*Port{a, b} {
		p.line.mu.Lock()
		p.line.picos = topology.PicosPerByte(width, speed)
		p.line.mu.Unlock()
	}
	a.peer.Store(b)
	b.peer.Store(a)
	return l, true
}

// widths returns the mask of the widths that a port has enabled.
func (p *Port) widths() uint8 {
	i, _ := p.node.soft.PortInfo(p.num)
	return i.WidthEnabled & i.WidthSupported
}

// speeds returns the masks of the speeds that a port has enabled.
func (p *Port) speeds() (base, extended uint8) {
	i, _ := p.node.soft.PortInfo(p.num)
	return i.SpeedEnabled & i.SpeedSupported, i.SpeedExtEnabled & i.SpeedExtSupp
}

// addCable joins two ports. f.mu is held, or the fabric is not shared yet.
func (f *Fabric) addCable(a, b *Port) {
	c := &cable{a: a, b: b}
	a.cable, b.cable = c, c
	f.pending.add(a)
}

// SetLink cuts (up false) or restores the cable at a port. A port without a cable is an error.
func (p *Port) SetLink(up bool) error {
	f := p.node.fabric
	f.mu.Lock()
	c := p.cable
	if c == nil {
		f.mu.Unlock()
		return fmt.Errorf("fabric: port %d of %q has no cable: ports with one are listed by the status",
			p.num, p.Node())
	}
	changed := c.cut == up
	c.cut = !up
	f.mu.Unlock()
	if changed {
		f.retrain(p)
	}
	f.settle()
	return nil
}
