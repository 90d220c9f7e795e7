package kproxy

import (
	"os"
	"slices"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
)

// userCA is the process's context of an adapter. It is nil if the driver has no CapUser.
type userCA = *accesslayer.UserCA

// DaemonOnly are the capabilities of verbs that exist only in the daemon: they take physical addresses, own a port,
// open contexts of other processes, or need memory that is persistent.
const DaemonOnly = ci.CapRD | ci.CapSpecialQP | ci.CapRawIPv6 | ci.CapRawEther | ci.CapRawMulticast | ci.CapFMR |
	ci.CapFastReg | ci.CapPhysicalMR | ci.CapUser | ci.CapEventHandlers | ci.CapFlushPersistent

func (c *Session) listHCAs() (*Result, error) {
	var r schema.ListHCAsReply
	for _, a := range c.s.cfg.AL.Adapters() {
		if len(r.HCAs) == schema.MaxHCAs {
			break
		}
		i := a.Info()
		r.HCAs = append(r.HCAs, schema.HCAInfo{GUID: i.GUID, DriverID: i.DriverID, VendorID: i.VendorID,
			DeviceID: i.DeviceID,
			Revision: uint32(i.Revision), Version: i.Version, Library: schema.ClipText(i.Library)})
	}
	return &Result{Body: &r}, nil
}

func (c *Session) openCA(r *schema.OpenCA, files []*os.File) (*Result, error) {
	const verb = "HCA.OpenCA"
	o := &object{kind: schema.KindCA, token: r.Token, charge: charge{mappings: 1, files: filesPerCA,
		space: spacePerCA()}} // a driver's
	o.ca = o
	queue, err := c.lookup(verb, schema.KindEventQueue, r.Async)
	if err != nil {
		return nil, err
	}
	o.async = queue.queue
	if err := c.reserve(verb, o, nil, queue); err != nil {
		return nil, err
	}
	ca, err := c.client.OpenCA(r.GUID, func(_ *accesslayer.CA, e ci.Event) { o.async.event(o, e) })
	if err != nil {
		c.remove(o)
		return nil, err
	}
	o.al, o.attr = ca, ca.Adapter().Attr()
	result, err := c.openUser(o, ca, r, files)
	if err != nil {
		_ = ca.Destroy() // its failure is logged by the access layer; the error of the verb is what the client needs
		o.async.forget(o, &o.delivered)
		c.remove(o)
		return nil, err
	}
	c.commit(o)
	c.opened(o)
	return result, nil
}

// openUser opens the process's context, if the driver has such contexts.
func (c *Session) openUser(o *object, ca *accesslayer.CA, r *schema.OpenCA, files []*os.File) (*Result, error) {
	reply := &schema.Created{Handle: o.handle}
	result := &Result{Body: reply, made: o.handle}
	if !o.attr.Caps.Has(ci.CapUser) {
		return result, nil
	}
	p, err := o.copyIn("HCA.OpenCA", &r.User, files)
	if err != nil {
		return nil, err
	}
	if o.user, err = ca.NewUser(c.proc, p.ub); err != nil {
		return nil, err
	}
	return p.copyOut(&reply.User, result), nil
}

func (c *Session) queryCA(r *schema.CA) (*Result, error) {
	o, err := c.lookup("CA.Query", schema.KindCA, r.CA)
	if err != nil {
		return nil, err
	}
	attr, err := o.al.(*accesslayer.CA).Query()
	if err != nil {
		return nil, err
	}
	a := *attr
	a.Caps &^= DaemonOnly
	a.Atomicity = min(a.Atomicity, ci.AtomicLocal) // see ci.AtomicMemory
	a.MaxRDDs, a.MaxEECs = 0, 0
	a.MaxRawIPv6QPs, a.MaxRawEtherQPs = 0, 0
	a.MaxFMRs, a.MaxMapsPerFMR, a.MaxFastRegPages = 0, 0, 0
	a.MaxSGEs, a.MaxReadSGEs = min(a.MaxSGEs, schema.MaxSGE), min(a.MaxReadSGEs, schema.MaxSGE)
	a.MaxSRQSGEs, a.MaxInline = min(a.MaxSRQSGEs, schema.MaxSGE), min(a.MaxInline, schema.MaxInline)
	c.quota.limit(&a)
	return &Result{Body: newCAAttr(&a)}, nil
}

func newCAAttr(a *ci.CAAttr) *schema.CAAttr {
	n := schema.Int32
	r := &schema.CAAttr{GUID: a.GUID, SystemGUID: a.SystemGUID, Firmware: a.Firmware, Caps: a.Caps,
		MaxMRSize: a.MaxMRSize,
		VendorID:  a.VendorID, DeviceID: a.DeviceID, Revision: a.Revision,
		MaxPDs: n(a.MaxPDs), MaxAVs: n(a.MaxAVs), MaxRDDs: n(a.MaxRDDs), MaxEECs: n(a.MaxEECs),
		MaxQPs: n(a.MaxQPs), MaxRawIPv6QPs: n(a.MaxRawIPv6QPs), MaxRawEtherQPs: n(a.MaxRawEtherQPs),
		MaxWRs: n(a.MaxWRs), MaxSGEs: n(a.MaxSGEs), MaxReadSGEs: n(a.MaxReadSGEs), MaxInline: n(a.MaxInline),
		MaxCQs: n(a.MaxCQs), MaxCQEs: n(a.MaxCQEs), MaxSRQs: n(a.MaxSRQs), MaxSRQWRs: n(a.MaxSRQWRs),
		MaxSRQSGEs: n(a.MaxSRQSGEs),
		MaxMRs:     n(a.MaxMRs), MaxMWs: n(a.MaxMWs), MaxFMRs: n(a.MaxFMRs), MaxMapsPerFMR: n(a.MaxMapsPerFMR),
		MaxFastRegPages: n(a.MaxFastRegPages), MaxPartitions: n(a.MaxPartitions),
		MaxMcastGroups: n(a.MaxMcastGroups), MaxMcastQPs: n(a.MaxMcastQPs),
		MaxQPsPerMcastGroup: n(a.MaxQPsPerMcastGroup),
		MaxRespRes:          n(a.MaxRespRes), MaxRespResPerQP: n(a.MaxRespResPerQP),
		MaxInitDepth: n(a.MaxInitDepthPerQP),
		NumVectors:   n(a.Vectors), AckDelay: a.AckDelay, Atomicity: a.Atomicity, PageSizes: slices.Clone(a.PageSizes)}
	for i := range a.Ports {
		r.Ports = append(r.Ports, newPortAttr(&a.Ports[i]))
	}
	return r
}

func newPortAttr(p *ci.PortAttr) schema.PortAttr {
	r := schema.PortAttr{GUID: p.GUID, MaxMsgSize: p.MaxMsgSize, Capability: p.Capability, LID: p.LID, SMLID: p.SMLID,
		PKeyErrors: p.PKeyErrors, QKeyErrors: p.QKeyErrors, Num: p.Num, Link: p.Link, State: p.State,
		PhysState: p.PhysState,
		MTU:       p.MTU, MaxMTU: p.MaxMTU, LMC: p.LMC, SMSL: p.SMSL, MaxVLs: p.MaxVLs, WidthActive: p.WidthActive,
		SpeedActive: p.SpeedActive, SpeedExt: p.SpeedExt, SubnetTimeout: p.SubnetTimeout,
		InitTypeReply: p.InitTypeReply}
	if p.HardwareAgents {
		r.HardwareAgents = 1
	}
	for _, g := range p.GIDs[:min(len(p.GIDs), schema.MaxTable)] {
		e := schema.GIDEntry{GID: g.GID, Type: g.Type}
		if len(g.Interface) <= schema.MaxZone {
			e.Interface = g.Interface
		}
		r.GIDs = append(r.GIDs, e)
	}
	for _, k := range p.PKeys[:min(len(p.PKeys), schema.MaxTable)] {
		r.PKeys = append(r.PKeys, uint16(k))
	}
	for _, m := range p.MTUs[:min(len(p.MTUs), schema.MaxSLs)] {
		r.MTUs = append(r.MTUs, byte(m))
	}
	return r
}

// privileged returns an error unless the client may change ports.
func (c *Session) privileged(verb string) error {
	if c.s.cfg.Privileged(c.peer) {
		return nil
	}
	return failf(verb, ci.InvalidPermission, "user %d may not change ports of this daemon's adapters, or use what "+
		"belongs to them (be root or the daemon's user)", c.peer.UID)
}

func (c *Session) modifyCA(r *schema.ModifyCA) (*Result, error) {
	const verb = "CA.Modify"
	o, err := c.lookup(verb, schema.KindCA, r.CA)
	if err == nil {
		err = c.privileged(verb)
	}
	if err == nil {
		err = o.al.(*accesslayer.CA).Modify(r.Port, r.Set, ci.PortModify{CapMask: r.CapMask, Capability: r.Capability,
			PKeyErrors: r.PKeyErrors, QKeyErrors: r.QKeyErrors, InitType: r.InitType, SystemGUID: r.SystemGUID})
	}
	return &Result{Body: &schema.None{}}, err
}

func (c *Session) localMAD(r *schema.LocalMAD) (*Result, error) {
	const (
		verb                               = "CA.LocalMAD"
		methodOffset, methodGet, methodAll = 3, 0x01, 0x12 // IBTA volume 1, 13.4.2: Get, GetTable
	)
	o, err := c.lookup(verb, schema.KindCA, r.CA)
	if err != nil {
		return nil, err
	}
	if m := r.MAD[methodOffset]; m != methodGet && m != methodAll {
		if err := c.privileged(verb); err != nil {
			return nil, err
		}
	}
	var src *ci.AVAttr
	if r.HasSrc {
		src = new(r.Source.CI())
	}
	in := ci.MAD(r.MAD)
	var out ci.MAD
	err = o.al.(*accesslayer.CA).LocalMAD(r.Port, src, &in, &out)
	return &Result{Body: &schema.LocalMADReply{MAD: out}}, err
}

func (c *Session) slForIP(r *schema.SLForIP) (*Result, error) {
	o, err := c.lookup("CA.SLForIP", schema.KindCA, r.CA)
	if err != nil {
		return nil, err
	}
	sl, err := o.al.(*accesslayer.CA).SLForIP(r.Port, r.IPPort)
	return &Result{Body: &schema.SLForIPReply{SL: sl}}, err
}

func (c *Session) vendorCall(r *schema.VendorCall, files []*os.File) (*Result, error) {
	const verb = "CA.VendorCall"
	o, err := c.lookup(verb, schema.KindCA, r.CA)
	if err != nil {
		return nil, err
	}
	var objects []ci.Object
	for _, h := range r.Objects {
		x, err := c.lookup(verb, h.Kind(), h)
		if err != nil || x.al == nil || x.servant != nil {
			return nil, failf(verb, ci.InvalidHandle, "handle %x is not an object of this client", uint64(h))
		}
		objects = append(objects, x.al)
	}
	p, err := o.copyIn(verb, &r.User, files)
	if err != nil {
		return nil, err
	}
	op := &ci.VendorOp{Command: r.Command, Status: r.Status, Data: r.Data}
	if o.user != nil {
		err = o.user.VendorCall(op, p.ub, objects...)
	} else {
		err = o.al.(*accesslayer.CA).VendorCall(op, objects...)
	}
	if err != nil {
		return nil, &VendorError{err, op.Status}
	}
	n := max(0, min(op.N, len(op.Data), schema.MaxVendor))
	reply := &schema.VendorCallReply{Status: op.Status, N: uint32(n), Data: op.Data[:n]}
	return p.copyOut(&reply.User, &Result{Body: reply}), nil
}

// VendorError is the error of a vendor call, with VendorOp.Status.
type VendorError struct {
	Err    error
	Status int32
}

// Error returns the text of the error.
func (e *VendorError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the verb.
func (e *VendorError) Unwrap() error { return e.Err }

func (c *Session) allocatePD(r *schema.AllocatePD, files []*os.File) (*Result, error) {
	const verb = "CA.AllocatePD"
	parent, err := c.lookup(verb, schema.KindCA, r.CA)
	if err != nil {
		return nil, err
	}
	p, err := parent.copyIn(verb, &r.User, files)
	if err != nil {
		return nil, err
	}
	return c.create(verb, &object{kind: schema.KindPD, ca: parent}, parent, p, func() (destroyable, error) {
		if parent.user != nil {
			return parent.user.NewPD(ci.PDType(r.Type), p.ub)
		}
		return parent.al.(*accesslayer.CA).NewPD(ci.PDType(r.Type))
	}, nil)
}
