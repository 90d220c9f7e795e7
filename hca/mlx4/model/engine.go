package model

import (
	"errors"
	"fmt"
	"time"

	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
	"ciddk/rvt"
)

// engineCaps are what the model uses of the transport.
const engineCaps = ci.CapUC | ci.CapUD | ci.CapAV | ci.CapSpecialQP | ci.CapMulticast | ci.CapSRQ | ci.CapMW1 |
	ci.CapMW2 | ci.CapZeroBased | ci.CapFastReg | ci.CapSendInvalidate | ci.CapCurrentQPState | ci.CapPortActiveEvent |
	ci.CapPKeyCounter | ci.CapQKeyCounter | ci.CapModeration | ci.CapAPM

// defaultQueueMemory is the default of Config.QueueMemory.
const defaultQueueMemory = 256 << 20

// startEngine makes the transport, which takes over the links.
func (m *Model) startEngine() error {
	var links []rvt.Port
	caps := engineCaps
	if len(m.ports) > 1 {
		caps |= ci.CapChangePrimaryPort
	}
	for _, p := range m.ports {
		links = append(links, p.link)
		if _, ok := ci.As[rvt.GroupPort](p.link); p.isEthernet() && !ok {
			caps &^= ci.CapMulticast
		}
	}
	memory := m.cfg.QueueMemory
	if memory == 0 {
		memory = defaultQueueMemory
	}
	id := uint16(prm.DeviceConnectX3)
	notify := time.Duration(-1) // without RoCEv2, a ConnectX-3 sees no marks of the network
	if m.cfg.Pro {
		id, notify = prm.DeviceConnectX3Pro, rvt.DefaultCNPInterval
	}
	h, err := rvt.New(rvt.Config{
		Info: ci.HCAInfo{GUID: m.cfg.GUID, VendorID: 0x0002c9, DeviceID: id, Revision: 0},
		Attr: ci.CAAttr{Caps: caps, MaxMRSize: 1 << logMaxMRSize, MaxSGEs: maxSendSGE, AckDelay: ackDelay,
			MaxWRs: 1 << (logMaxQPSize + 1), MaxCQEs: 1 << logMaxCQSize, MaxInline: maxSendDesc},
		Ports: links, NodeDescription: m.cfg.NodeDescription, Rings: rings{m}, Clock: m.cfg.Clock, Rand: m.cfg.Rand,
		QueueMemory: memory, CNPInterval: notify,
		Ops: rvt.Ops{QPN: m.number, QPState: m.stateChanged, KeyMiss: m.keyMiss, Received: m.received},
	})
	if err != nil {
		return err
	}
	m.engine = h
	if m.ca, err = h.OpenCA(m.cfg.GUID, m.portEvent, nil); err != nil {
		_ = h.Close() // the error to report is the first one
		return fmt.Errorf("the transport cannot be opened: %w", err)
	}
	if m.pd, err = m.ca.AllocatePD(ci.PDNormal); err != nil {
		return errors.Join(append(m.stopEngine(), err)...)
	}
	return nil
}

// stopEngine ends the transport.
func (m *Model) stopEngine() []error {
	m.errored.stop()
	var errs []error
	if m.pd != nil {
		errs = append(errs, m.pd.Destroy())
	}
	return append(errs, m.ca.Destroy(), m.engine.Close())
}
