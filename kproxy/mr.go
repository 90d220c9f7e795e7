package kproxy

import (
	"os"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/kproxy/schema"
)

// memory returns the memory that a request describes.
func (c *Session) memory(verb string, m *schema.Memory, files []*os.File) (mapping, error) {
	switch {
	case m.Shared && len(files) != 1:
		return mapping{}, failf(verb, ci.InvalidParameter, "shared memory comes with one descriptor, %d received",
			len(files))
	case !m.Shared && len(files) != 0:
		return mapping{}, failf(verb, ci.InvalidParameter, "%d descriptors for memory that is not shared", len(files))
	case m.Shared:
		r, err := mapShared(files[0], m.Addr, m.FileOffset, m.Length, m.Access&ci.LocalWrite != 0)
		if err != nil {
			return mapping{}, &ci.Error{Verb: verb, Status: ci.InvalidPermission, Detail: "shared memory", Err: err}
		}
		return r, nil
	}
	mem, err := c.proc.Memory(m.Addr, m.Length, m.Access)
	return mapping{mem: mem}, err
}

func regionReply(h schema.Handle, r ci.Region) *Result {
	return &Result{Body: &schema.RegionReply{Handle: h, Region: schema.Region{Addr: r.Addr, Length: r.Length,
		LKey: r.LKey, RKey: r.RKey}}}
}

func (c *Session) registerMR(r *schema.RegisterMR, files []*os.File) (*Result, error) {
	const verb = "PD.RegisterMR"
	pd, err := c.lookup(verb, schema.KindPD, r.PD)
	if err != nil {
		return nil, err
	}
	m := &r.Memory
	o := &object{kind: schema.KindMR, ca: pd.ca, charge: charge{memory: int64(min(m.Length, 1<<62))}}
	var reply *Result
	return c.create(verb, o, pd, private{}, func() (destroyable, error) {
		found, err := c.memory(verb, m, files)
		if err != nil {
			return nil, err
		}
		mr, err := pd.al.(*accesslayer.PD).NewMR(ci.MRCreate{Memory: found.mem, IOVA: m.IOVA, Access: m.Access})
		if err != nil {
			found.release()
			return nil, err
		}
		o.memory, reply = found, regionReply(o.handle, mr.Region())
		return mr, nil
	}, func() (*Result, *schema.UserBufferReply) { return reply, nil })
}

func (c *Session) registerSMR(r *schema.RegisterSMR) (*Result, error) {
	const verb = "PD.RegisterSMR"
	pd, err := c.lookup(verb, schema.KindPD, r.PD)
	if err != nil {
		return nil, err
	}
	src, err := c.lookup(verb, schema.KindMR, r.MR)
	if err != nil {
		return nil, err
	}
	o := &object{kind: schema.KindMR, ca: pd.ca}
	var reply *Result
	// The region uses src, so that src's memory stays mapped.
	return c.create(verb, o, pd, private{}, func() (destroyable, error) {
		mr, err := pd.al.(*accesslayer.PD).NewSMR(src.al.(ci.MR), r.IOVA, r.Access)
		if err != nil {
			return nil, err
		}
		reply = regionReply(o.handle, mr.Region())
		return mr, nil
	}, func() (*Result, *schema.UserBufferReply) { return reply, nil }, src)
}

func (c *Session) queryMR(r *schema.MR) (*Result, error) {
	o, err := c.lookup("MR.Query", schema.KindMR, r.MR)
	if err != nil {
		return nil, err
	}
	a, err := o.al.(*accesslayer.MR).Query()
	return &Result{Body: &schema.QueryMRReply{Region: schema.Region{Addr: a.Addr, Length: a.Length, LKey: a.LKey,
		RKey: a.RKey},
		LocalLo: a.LocalLo, LocalHi: a.LocalHi, RemoteLo: a.RemoteLo, RemoteHi: a.RemoteHi, Access: a.Access}}, err
}

func (c *Session) modifyMR(r *schema.ModifyMR, files []*os.File) (*Result, error) {
	const verb = "MR.Modify"
	o, err := c.lookup(verb, schema.KindMR, r.MR)
	if err != nil {
		return nil, err
	}
	pd, err := c.optional(verb, schema.KindPD, r.PD)
	if err != nil {
		return nil, err
	}
	set, create := ci.MRField(r.Set), ci.MRCreate{IOVA: r.Memory.IOVA, Access: r.Memory.Access}
	var found mapping
	var more charge
	if set&ci.MRFieldMemory != 0 {
		access := r.Memory
		if set&ci.MRFieldAccess == 0 { // the region keeps its rights, which the request does not contain
			if a, err := o.al.(*accesslayer.MR).Query(); err == nil {
				access.Access = a.Access
			}
		}
		more.memory = int64(min(r.Memory.Length, 1<<62))
		if err := c.chargeMore(verb, more); err != nil {
			return nil, err
		}
		if found, err = c.memory(verb, &access, files); err != nil {
			c.chargeLess(more)
			return nil, err
		}
		create.Memory = found.mem
	}
	var to ci.PD
	if pd != nil {
		to = pd.al.(*accesslayer.PD).CI()
	}
	if err := o.al.(*accesslayer.MR).Modify(set, to, create); err != nil {
		if ci.StatusOf(err) != ci.InsufficientResources { // else the region is invalid, and keeps all until Destroy
			found.release()
			c.chargeLess(more)
			return nil, err
		}
		c.mu.Lock()
		o.charge.memory += more.memory
		c.mu.Unlock()
		return nil, err
	}
	c.mu.Lock()
	old := mapping{}
	if set&ci.MRFieldMemory != 0 {
		old, o.memory = o.memory, found
		c.dropCharge(o.charge)
		o.charge = more
	}
	if set&ci.MRFieldPD != 0 && pd != nil {
		o.parent.children--
		o.parent = pd
		pd.children++
	}
	c.mu.Unlock()
	old.release()
	return regionReply(o.handle, o.al.(*accesslayer.MR).Region()), nil
}

func (c *Session) createMW(r *schema.CreateMW, files []*os.File) (*Result, error) {
	const verb = "PD.CreateMW"
	pd, err := c.lookup(verb, schema.KindPD, r.PD)
	if err != nil {
		return nil, err
	}
	p, err := pd.copyIn(verb, &r.User, files)
	if err != nil {
		return nil, err
	}
	o := &object{kind: schema.KindMW, ca: pd.ca}
	reply := new(schema.WindowReply)
	return c.create(verb, o, pd, p, func() (destroyable, error) {
		w, err := pd.al.(*accesslayer.PD).NewMW(ci.MWCreate{Type: ci.MWType(r.Type), User: p.ub})
		if err != nil {
			return nil, err
		}
		reply.Key = w.Key()
		return w, nil
	}, func() (*Result, *schema.UserBufferReply) {
		reply.Handle = o.handle
		return &Result{Body: reply}, &reply.User
	})
}

func (c *Session) queryMW(r *schema.MW) (*Result, error) {
	o, err := c.lookup("MW.Query", schema.KindMW, r.MW)
	if err != nil {
		return nil, err
	}
	a, err := o.al.(*accesslayer.MW).Query()
	return &Result{Body: &schema.WindowReply{Handle: o.handle, Key: a.Key, Type: uint32(a.Type)}}, err
}
