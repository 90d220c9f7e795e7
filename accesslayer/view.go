package accesslayer

import "ciddk/ci"

// These types are the views of the containers. A view is a pointer to its container with another type. Therefore two
// views of one object are equal, ci.IsNil recognizes the view of a nil pointer, and CI does not allocate. Destroy and
// DestroyAsync are those of the container.
type (
	ciCA     CA
	ciUserCA UserCA
	ciPD     PD
	ciRDD    RDD
)

// CI returns the plain view of c, for code that is written against package ci. It creates the same objects as c. Use
// ci.As to recover the *CA from the view.
func (c *CA) CI() ci.CA { return (*ciCA)(c) }

// CI returns the plain view of u; see CA.CI.
func (u *UserCA) CI() ci.UserCA { return (*ciUserCA)(u) }

// CI returns the plain view of p; see CA.CI. It is also the argument for ci.MR.Modify and ModifyPMR.
func (p *PD) CI() ci.PD { return (*ciPD)(p) }

// CI returns the plain view of r; see CA.CI. It is also the value for ci.QPCreate.RDD.
func (r *RDD) CI() ci.RDD { return (*ciRDD)(r) }

func (c *ciCA) ca() *CA     { return (*CA)(c) }
func (c *ciCA) Unwrap() any { return c.ca() }

// Query claims CapEventHandlers, since OnEvent is implemented by the access layer.
func (c *ciCA) Query() (*ci.CAAttr, error) {
	attr, err := c.ca().Query()
	if err != nil {
		return nil, err
	}
	claimed := *attr
	claimed.Caps |= ci.CapEventHandlers
	return &claimed, nil
}

func (c *ciCA) Modify(port uint8, set ci.PortField, attr ci.PortModify) error {
	return c.ca().Modify(port, set, attr)
}

func (c *ciCA) AllocatePD(typ ci.PDType) (ci.PD, error) {
	p, err := c.ca().NewPD(typ)
	if err != nil {
		return nil, err
	}
	return p.CI(), nil
}

func (c *ciCA) OpenUser(p ci.Process, ub *ci.UserBuffer) (ci.UserCA, error) {
	u, err := c.ca().NewUser(p, ub)
	if err != nil {
		return nil, err
	}
	return u.CI(), nil
}

func (c *ciCA) OnEvent(fn func(ci.Event), arg any) (ci.Object, error) {
	return asCI[ci.Object](c.ca().NewEventHandler(fn, arg))
}

func (c *ciCA) MapDMA(mem ci.Memory) (ci.DMA, error) { return asCI[ci.DMA](c.ca().NewDMA(mem)) }

func (c *ciCA) LocalMAD(port uint8, src *ci.AVAttr, in, out *ci.MAD) error {
	return c.ca().LocalMAD(port, src, in, out)
}

func (c *ciCA) SLForIP(port uint8, ipPort uint16) (ci.SL, error) {
	return c.ca().SLForIP(port, ipPort)
}

func (c *ciCA) VendorCall(op *ci.VendorOp, objects ...ci.Object) error {
	return c.ca().VendorCall(op, objects...)
}

func (u *ciUserCA) user() *UserCA { return (*UserCA)(u) }
func (u *ciUserCA) Unwrap() any   { return u.user() }

func (u *ciUserCA) AllocatePD(typ ci.PDType, ub *ci.UserBuffer) (ci.PD, error) {
	p, err := u.user().NewPD(typ, ub)
	if err != nil {
		return nil, err
	}
	return p.CI(), nil
}

func (u *ciUserCA) VendorCall(op *ci.VendorOp, ub *ci.UserBuffer, objects ...ci.Object) error {
	return u.user().VendorCall(op, ub, objects...)
}

func (p *ciPD) pd() *PD     { return (*PD)(p) }
func (p *ciPD) Unwrap() any { return p.pd() }

func (p *ciPD) CreateAV(attr ci.AVAttr) (ci.AV, error) { return asCI[ci.AV](p.pd().NewAV(attr)) }

func (p *ciPD) CreateCQ(c ci.CQCreate) (ci.CQ, error) {
	return asCI[ci.CQ](p.pd().NewCQ(c, CQHandler{}))
}

func (p *ciPD) CreateSRQ(c ci.SRQCreate) (ci.SRQ, error) {
	return asCI[ci.SRQ](p.pd().NewSRQ(c, nil))
}

func (p *ciPD) CreateQP(c ci.QPCreate) (ci.QP, error) { return asCI[ci.QP](p.pd().NewQP(c, nil)) }

func (p *ciPD) CreateSpecialQP(port uint8, c ci.QPCreate) (ci.QP, error) {
	return asCI[ci.QP](p.pd().NewSpecialQP(port, c, nil))
}

func (p *ciPD) RegisterMR(c ci.MRCreate) (ci.MR, error)   { return asCI[ci.MR](p.pd().NewMR(c)) }
func (p *ciPD) RegisterPMR(c ci.PMRCreate) (ci.MR, error) { return asCI[ci.MR](p.pd().NewPMR(c)) }

func (p *ciPD) RegisterSMR(src ci.MR, iova uint64, access ci.Access) (ci.MR, error) {
	return asCI[ci.MR](p.pd().NewSMR(src, iova, access))
}

func (p *ciPD) AllocFastRegMR(maxPages int) (ci.MR, error) {
	return asCI[ci.MR](p.pd().NewFastRegMR(maxPages))
}

func (p *ciPD) AllocFMR(c ci.FMRCreate) (ci.FMR, error) { return asCI[ci.FMR](p.pd().NewFMR(c)) }
func (p *ciPD) UnmapFMRs(fmrs []ci.FMR) error           { return p.pd().UnmapFMRs(fmrs) }
func (p *ciPD) CreateMW(c ci.MWCreate) (ci.MW, error)   { return asCI[ci.MW](p.pd().NewMW(c)) }

func (p *ciPD) AllocRDD() (ci.RDD, error) {
	r, err := p.pd().NewRDD()
	if err != nil {
		return nil, err
	}
	return r.CI(), nil
}

func (r *ciRDD) Unwrap() any { return (*RDD)(r) }

func (r *ciRDD) CreateEEC(c ci.EECCreate) (ci.EEC, error) {
	return asCI[ci.EEC]((*RDD)(r).NewEEC(c, nil))
}
