package mlx4

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"ciddk/ci"
	"ciddk/internal/mlx4/fw"
	"ciddk/internal/mlx4/prm"
)

// TestSchedule compares the scheduling of paths with that of Linux (linux ib qp.c, mlx4_set_path and
// __mlx4_ib_modify_qp). Packets of QP0 use service level 15.
func TestSchedule(t *testing.T) {
	for _, x := range []struct {
		link  ci.Link
		port  uint8
		num   ci.QPN
		level ci.SL
		want  uint64
	}{
		{ci.LinkInfiniBand, 1, 0, 0, 0x3f},
		{ci.LinkInfiniBand, 2, 0, 0, 0x7f},
		{ci.LinkInfiniBand, 1, 1, 0, 0x83},
		{ci.LinkInfiniBand, 2, 0x300, 9, 0xe7},
		{ci.LinkEthernet, 1, 1, 0, 0x83},
		{ci.LinkEthernet, 2, 0x300, 5, 0xeb},
	} {
		p := &port{num: x.port, caps: fw.PortCaps{Link: x.link}}
		b := make([]byte, prm.PathSize)
		p.encodePath(b, &ci.Path{AV: ci.AVAttr{SL: x.level}}, &qp{num: x.num, service: prm.ServiceMLX})
		assert.Equal(t, x.want, prm.PathSchedule.Get(b), "%+v", x)
	}
}
