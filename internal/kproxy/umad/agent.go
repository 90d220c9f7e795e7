package umad

import (
	"fmt"
	"slices"
	"syscall"

	"ciddk/accesslayer/mads"
	"ciddk/internal/kproxy/devices"
	"ciddk/mad"
)

// agent is an agent of a file.
type agent struct {
	id      uint32
	class   mad.Class // 0: it receives no requests
	version uint8
	oui     [3]byte
	mask    [2]uint64 // methods
	hasRMPP bool
	sender  mads.Agent

	receivers []*receiver
}

// receiver receives requests for the agents of a file. Those of both classes of subnet management share receivers,
// since to the services these are one class.
type receiver struct {
	claim claim
	mask  [2]uint64
	agent mads.Agent
	users int
}

// claim identifies requests beside their methods.
type claim struct {
	class   mad.Class // mad.ClassSubnetLID for both classes of subnet management
	version uint8
	oui     [3]byte
}

func (a *agent) claim() claim {
	c := claim{a.class, a.version, a.oui}
	if c.class == mad.ClassSubnetDirected {
		c.class = mad.ClassSubnetLID
	}
	return c
}

func has(mask *[2]uint64, m mad.Method) bool { return m < 128 && mask[m/64]>>(m%64)&1 != 0 }

// methods returns the methods of a mask that are requests. Agents receive responses to their own requests in any case.
func methods(mask [2]uint64) (list []mad.Method) {
	for m := mad.Method(1); m < 128; m++ {
		if has(&mask, m) && m != mad.TrapRepress {
			list = append(list, m)
		}
	}
	return list
}

// bytesPerAgent is an estimate of what an agent holds.
const bytesPerAgent = 4096

const (
	rmppVersion  = 1
	maxVersion   = 0x83 // MAX_MGMT_VERSION
	supportedCap = 0    // of flags
)

// check checks a registration, with the errors of ib_register_mad_agent.
func (q *registration) check() error {
	_, hasRMPP := mad.SegmentationOf(q.class)
	isSubnet := q.class == mad.ClassSubnetLID || q.class == mad.ClassSubnetDirected
	switch {
	case q.qpn > 1, q.rmpp != 0 && q.rmpp != rmppVersion, q.badOUI && q.class != 0:
		return syscall.EINVAL
	case q.class == 0:
		return nil
	case q.version >= maxVersion, q.class > mad.ClassVendor2Last && q.class != mad.ClassSubnetDirected:
		return syscall.EINVAL
	case q.class.Vendor2() && q.oui == [3]byte{}, q.rmpp != 0 && !hasRMPP, isSubnet != (q.qpn == 0):
		return syscall.EINVAL
	}
	return nil
}

// register creates an agent.
func (f *File) register(r *devices.Request, q *registration) *devices.Reply {
	id, err := f.newAgent(q)
	if err != nil {
		return devices.Fail(errnoOf(err))
	}
	return &devices.Reply{Stores: []devices.Store{{Addr: r.Operand, Data: ne.AppendUint32(nil, id)}}}
}

// register2 creates an agent. Its file's headers have the P_Key index.
func (f *File) register2(r *devices.Request, q *registration) *devices.Reply {
	if q.flags&^supportedCap != 0 {
		return &devices.Reply{Errno: syscall.EINVAL,
			Stores: []devices.Store{{Addr: r.Operand + offFlags, Data: ne.AppendUint32(nil, supportedCap)}}}
	}
	id, err := f.newAgent(q)
	if err != nil {
		return devices.Fail(errnoOf(err))
	}
	f.mu.Lock()
	f.hasPKeys = true
	f.mu.Unlock()
	return &devices.Reply{Stores: []devices.Store{{Addr: r.Operand, Data: ne.AppendUint32(nil, id)}}}
}

func (f *File) newAgent(q *registration) (uint32, error) {
	f.stepMu.Lock()
	defer f.stepMu.Unlock()
	a := &agent{class: q.class, version: q.version, hasRMPP: q.rmpp != 0}
	if q.class != 0 {
		a.mask = q.mask
	}
	if q.class.Vendor2() {
		a.oui = q.oui
	}
	f.mu.Lock()
	i := slices.Index(f.agents[:], nil)
	isGone, isClosed, isTaken := f.isGone, f.isClosed, f.isTaken(a)
	f.mu.Unlock()
	if i >= 0 {
		a.id = uint32(i)
	}
	err := q.check()
	switch {
	case isGone:
		return 0, syscall.EPIPE
	case isClosed:
		return 0, syscall.EIO
	case q.qpn > 1:
		return 0, syscall.EINVAL
	case i < 0:
		return 0, syscall.ENOMEM
	case err != nil:
		return 0, err
	case isTaken:
		return 0, syscall.EINVAL
	}
	err = f.session.AfterEndings(func() error {
		if err := f.session.Charge("umad", bytesPerAgent); err != nil {
			return err
		}
		err := f.openAgent(a, q.qpn == 0)
		if err != nil {
			f.closeAgent(a)
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.agents[i], f.isUsed = a, true
	return a.id, nil
}

// isTaken reports whether another agent of the file receives requests of the same class and method. mu is held.
func (f *File) isTaken(a *agent) bool {
	return slices.ContainsFunc(f.agents[:], func(b *agent) bool {
		return b != nil && a.class != 0 && b.class == a.class && b.version == a.version && b.oui == a.oui &&
			(b.mask[0]&a.mask[0] != 0 || b.mask[1]&a.mask[1] != 0)
	})
}

// openAgent registers an agent at the services. stepMu is held.
func (f *File) openAgent(a *agent, isSubnet bool) (err error) {
	name := fmt.Sprintf("umad%d (client %d)", f.place.index, f.session.ID())
	cfg := mads.AgentConfig{Name: name, Port: f.place.id, SubnetManagement: isSubnet}
	if a.hasRMPP {
		cfg.Class, cfg.RMPP = a.class, true
	}
	if a.sender, err = f.front.cfg.MAD.Register(cfg); err != nil {
		return err
	}
	missing := a.mask
	for _, r := range f.receivers {
		if r.claim != a.claim() || r.mask[0]&a.mask[0] == 0 && r.mask[1]&a.mask[1] == 0 {
			continue
		}
		r.users++
		a.receivers = append(a.receivers, r)
		missing[0] &^= r.mask[0]
		missing[1] &^= r.mask[1]
	}
	cfg.Methods = methods(missing)
	if len(cfg.Methods) == 0 {
		return nil
	}
	cfg.Class, cfg.Version, cfg.OUI = a.class, a.version, a.oui
	cfg.OnReceive, cfg.Manager = f.receive, isSubnet
	r := &receiver{claim: a.claim(), mask: missing, users: 1}
	if r.agent, err = f.front.cfg.MAD.Register(cfg); err != nil {
		return err
	}
	a.receivers = append(a.receivers, r)
	f.receivers = append(f.receivers, r)
	return nil
}

// closeAgent closes an agent that is not in the table any more. stepMu is held.
func (f *File) closeAgent(a *agent) {
	if a.sender != nil {
		_ = a.sender.Close() // it has no error
	}
	for _, r := range a.receivers {
		if r.users--; r.users == 0 {
			_ = r.agent.Close() // it has no error
			f.receivers = slices.DeleteFunc(f.receivers, func(x *receiver) bool { return x == r })
		}
	}
	a.receivers = nil
	f.session.Discharge(bytesPerAgent)
}

// unregister closes an agent. Datagrams for it that wait for a read are removed.
func (f *File) unregister(id uint32) *devices.Reply {
	f.stepMu.Lock()
	defer f.stepMu.Unlock()
	f.mu.Lock()
	var a *agent
	if id < maxAgents {
		a = f.agents[id]
		f.agents[id] = nil
	}
	var waiting int64
	reply := &devices.Reply{}
	if a != nil {
		f.list = slices.DeleteFunc(f.list, func(p *packet) bool {
			isMine := p.header.id == id
			if isMine {
				waiting += p.bytes()
			}
			return isMine
		})
		for k, stop := range f.pending {
			if k.agent == a {
				stop()
			}
		}
		reply.Quiet = f.quiet()
	}
	f.mu.Unlock()
	if a == nil {
		return devices.Fail(syscall.EINVAL)
	}
	f.session.Discharge(waiting)
	f.closeAgent(a)
	return reply
}

// receive passes a request to the agent that has registered for it. It does not block.
func (f *File) receive(r *mads.Received) {
	h := r.Header()
	var oui [3]byte
	if h.Class.Vendor2() {
		oui = [3]byte(r.MAD[mad.RMPPEnd+1:])
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.agents {
		if a != nil && a.class == h.Class && a.version == h.ClassVersion && a.oui == oui && has(&a.mask, h.Method) {
			f.push(a, f.received(r))
			return
		}
	}
}
