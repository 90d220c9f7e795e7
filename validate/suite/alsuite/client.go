package alsuite

import (
	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// Adapters beside each other.
var clients = area()

var _ = clients.Needing(validate.Needs{HCAs: 2}).Add("al.adapters", "two adapters beside each other", twoAdapters,
	req.SAS0_02, req.SAS2_3_02)

func twoAdapters(t *validate.T) {
	s := registered(t)
	list := s.al.Adapters()
	kit.Equal(t, "adapters", len(list), len(s.hcas))
	for i, a := range list {
		kit.Equal(t, "adapters in the order of registration", a.GUID(), s.guid(i))
		for j := range a.Attr().Ports {
			port := &a.Attr().Ports[j]
			for index := range port.GIDs {
				gid := port.GIDs[index].GID
				if gid == (ci.GID{}) {
					continue
				}
				got, num, err := s.al.AdapterByGID(gid)
				kit.OK(t, err, "AL.AdapterByGID")
				kit.True(t, got == a && num == port.Num, "AL.AdapterByGID", "adapter and port with the GID",
					"%v, port %d", got.GUID(), num)
				num, _, err = a.FindGID(gid)
				kit.OK(t, err, "Adapter.FindGID")
				kit.Equal(t, "port of Adapter.FindGID", num, port.Num)
			}
			if len(port.PKeys) > 0 && port.PKeys[0] != 0 {
				index, pkey, err := a.FindPKey(port.Num, port.PKeys[0])
				kit.OK(t, err, "Adapter.FindPKey")
				kit.True(t, port.PKeys[index] == pkey, "Adapter.FindPKey", "an index of the entry it returns",
					"index %d, %#x", index, pkey)
			}
		}
		_, err := a.Port(uint8(len(a.Attr().Ports)) + 1)
		kit.WantExactly(t, err, "Adapter.Port of a port that the adapter does not have", ci.InvalidPort)
	}
	_, _, err := s.al.AdapterByGID(ci.GID{1, 2, 3})
	kit.WantExactly(t, err, "AL.AdapterByGID of an unknown GID", ci.NotFound)
	a, b := s.open(s.client, 0), s.open(s.client, 1)
	foreign := b.CQ(b.PD(), 4)
	pd := a.PD()
	_, err = pd.CreateQP(ci.QPCreate{Type: ci.RC, QPCaps: ci.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: 1},
		SendCQ: foreign, RecvCQ: foreign})
	kit.WantExactly(t, err, "PD.CreateQP with CQs of another adapter", ci.InvalidCQHandle)
	kit.OK(t, s.al.Deregister(s.guid(0)), "Registrar.Deregister")
	kit.Equal(t, "adapters after one was removed", len(s.al.Adapters()), len(s.hcas)-1)
	_, err = foreign.Query()
	kit.OK(t, err, "CQ.Query of the other adapter")
	s.rec[0].shut(t)
	s.rec[1].clean(t)
}
