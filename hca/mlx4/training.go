package mlx4

import (
	"time"

	"ciddk/ci"
)

// The adapter reports that a port is active or down, and nothing in between. The driver looks at a port that has gone
// down until its link has trained, and reports then that the port waits for a subnet manager.

// trainingInterval is the interval in which the driver looks at the ports whose links train.
const trainingInterval = time.Second

// watchTraining is the goroutine that looks for ports that enter Init.
func (h *HCA) watchTraining() {
	timer := h.clock.AfterFunc(trainingInterval, h.lookAtPorts)
	timer.Stop()
	defer timer.Stop()
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-h.dev.Failed():
			return
		case <-h.down:
		}
		isTraining := false
		for _, p := range h.ports {
			if p.isDown.Load() {
				isTraining = !p.hasTrained() || isTraining
			}
		}
		timer.Stop()
		if isTraining {
			timer.Reset(trainingInterval)
		}
	}
}

// wentDown records that the link of a port may train.
func (p *port) wentDown() {
	if p.isEthernet() {
		return // a link that is up is active
	}
	p.isDown.Store(true)
	p.hca.lookAtPorts()
}

// lookAtPorts wakes watchTraining. It does not block.
func (h *HCA) lookAtPorts() {
	select {
	case h.down <- struct{}{}:
	default: // it is about to look
	}
}

// hasTrained reports whether the port is not down any more, and reports its state to the consumer if that is Init.
func (p *port) hasTrained() bool {
	p.isDown.Store(false) // before the state is read, so that a later event counts
	p.forget()
	a, err := p.query(p.hca.ctx)
	if err != nil || a.State == ci.PortDown {
		p.isDown.Store(true)
		return false
	}
	if a.State == ci.PortInit {
		p.hca.notifyCA(ci.Event{Type: ci.EventPortInit, Port: p.num})
	}
	return true
}
