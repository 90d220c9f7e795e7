package chaos

import (
	"fmt"

	"ciddk/accesslayer"
	"ciddk/ci"
)

// vault is memory and a QP of a host without hot removal. No other actor uses them, so they must not change, and no
// frame may contain them.
type vault struct {
	mem    *guarded
	seed   uint64
	qp     *accesslayer.QP
	before ci.QPAttr
}

const vaultSize = 8192

func newVault(h *host) (*vault, error) {
	w := h.w
	client, err := h.al.Open(accesslayer.ClientConfig{Name: "vault"})
	if err != nil {
		return nil, err
	}
	ca, err := client.OpenCA(h.hca.Info().GUID, nil)
	if err != nil {
		return nil, err
	}
	pd, err := ca.NewPD(ci.PDNormal)
	if err != nil {
		return nil, err
	}
	v := &vault{seed: w.seed ^ hash("vault "+h.addr.String())}
	v.mem = newGuarded(vaultSize, v.seed)
	fill(v.mem.body(), v.seed, 2)
	for off := 0; off < vaultSize; off += 512 {
		w.truth.secret(v.mem.body()[off : off+16])
	}
	if _, err := pd.NewMR(ci.MRCreate{Memory: ci.Bytes(v.mem.body()), Access: allRights}); err != nil {
		return nil, err
	}
	cq, err := pd.NewCQ(ci.CQCreate{Size: 4}, accesslayer.CQHandler{})
	if err != nil {
		return nil, err
	}
	v.qp, err = pd.NewQP(ci.QPCreate{SendCQ: cq, RecvCQ: cq, QPCaps: ci.QPCaps{SendDepth: 2, RecvDepth: 2, SendSGE: 1,
		RecvSGE: 1}}, nil)
	if err != nil {
		return nil, err
	}
	w.truth.of(h.addr).hidden.Store(v.qp.Num(), true)
	attr := connectedAttr(gidOf(unplugged), ci.QPN(mix(v.seed)&0xffffff), ci.PSN(mix(v.seed+1)&0xffffff),
		ci.PSN(mix(v.seed+2)&0xffffff))
	if err := toRTS(v.qp, attr); err != nil {
		return nil, err
	}
	v.before, err = v.qp.Query()
	return v, err
}

// check returns an error if the vault has changed. The engine does not write to it, so reading it is not a race.
func (v *vault) check() error {
	if err := v.mem.check(); err != nil {
		return fmt.Errorf("vault: %w", err)
	}
	if i := differs(v.mem.body(), v.seed, 2); i >= 0 {
		return fmt.Errorf("vault: byte %d of memory that no peer has a key of changed", i)
	}
	now, err := v.qp.Query()
	if err != nil {
		return fmt.Errorf("vault: %w", err)
	}
	if now.State != v.before.State || now.RQPSN != v.before.RQPSN || now.SQPSN != v.before.SQPSN ||
		now.DestNum != v.before.DestNum {
		return fmt.Errorf("vault: a QP without traffic went from %v, PSNs %#x and %#x, to %v, %#x and %#x",
			v.before.State,
			v.before.SQPSN,
			v.before.RQPSN, now.State, now.SQPSN, now.RQPSN)
	}
	return nil
}
