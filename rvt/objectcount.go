package rvt

// kind is a kind of object, for limits and counts.
type kind uint8

const (
	kindPD kind = iota
	kindAV
	kindCQ
	kindQP
	kindSRQ
	kindMR
	kindMW
	kindFMR
	kindDMA
	kindMcast
	kindHandler
	kindUser
	numKinds
)

var kindNames = [numKinds]string{"PD", "AV", "CQ", "QP", "SRQ", "MR", "MW", "FMR", "DMA", "Mcast", "handler", "user"}

// take counts a new object. It reports false, and counts nothing, if there are most already.
func (d *device) take(k kind, most int) bool {
	if d.limit[k].Add(1) > int64(most) {
		d.limit[k].Add(-1)
		return false
	}
	return true
}

func (d *device) drop(k kind) { d.limit[k].Add(-1) }
