package model

import (
	"ciddk/ci"
	"ciddk/rvt"
)

// avCache has the address vectors of a QP's recent datagrams. WQEs have whole addresses, and the transport compiles
// them once. The holder of the QP's token uses it.
type avCache struct {
	pd  *rvt.PD
	avs map[ci.AVAttr]ci.AV
}

// maxAVs bounds the vectors of a QP, and with them the memory: about 300 bytes each.
const maxAVs = 64

// get returns the vector for an address, or nil if there is none.
func (c *avCache) get(a ci.AVAttr) *rvt.AV {
	av := c.avs[a]
	if av == nil {
		if len(c.avs) >= maxAVs {
			c.clear()
		}
		var err error
		if av, err = c.pd.CreateAV(a); err != nil {
			return nil
		}
		if c.avs == nil {
			c.avs = map[ci.AVAttr]ci.AV{}
		}
		c.avs[a] = av
	}
	v, _ := ci.As[*rvt.AV](av)
	return v
}

// clear releases all vectors.
func (c *avCache) clear() {
	for _, av := range c.avs {
		_ = av.Destroy() // nothing else uses it
	}
	clear(c.avs)
}
