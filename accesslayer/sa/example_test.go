package sa_test

import (
	"context"
	"fmt"

	"ciddk/accesslayer"
	"ciddk/accesslayer/mads"
	"ciddk/accesslayer/sa"
	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/internal/testenv"
	"ciddk/link/direct"
	"ciddk/mad"
	"ciddk/rvt"
)

// The path from a port to another, by their GIDs. In this example the administrator is an agent of the same port, which
// returns one LID. Usually it is a program in the subnet, such as OpenSM.
func Example() {
	hca, err := reference.New(reference.Config{Ports: []rvt.Port{testenv.Must(direct.New(direct.NewLink(),
		direct.Config{LID: 5}))}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer hca.Close()
	al := accesslayer.New(accesslayer.Config{})
	defer al.Close()
	_ = al.Register(hca)
	services, err := mads.New(al, mads.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer services.Close()
	_ = al.WaitPnP(context.Background())
	port := services.Ports()[0]
	administrator, err := services.Register(mads.AgentConfig{Name: "SA", Port: port, Class: mad.ClassSubnetAdmin,
		Version: mad.ClassVersionSubnetAdmin,
		Methods: []mad.Method{mad.Get}})
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() {
		r, err := administrator.Recv(context.Background())
		if err != nil {
			return
		}
		var q mad.SA
		_ = mad.ParseSA(r.MAD, &q)
		var p mad.PathRecord
		p.Parse(q.Data[:])
		p.DLID, p.MTU, p.MTUSelector = 0x11, mad.MTU2048, mad.Exactly
		p.Put(q.Data[:])
		q.Method = mad.GetResp
		q.Put(r.MAD)
		_ = administrator.Send(&mads.Message{To: r.From, MAD: r.MAD})
	}()

	c := sa.New(al, services, sa.Config{})
	defer c.Close()
	mine := al.Adapters()[0].Attr().Ports[0].GIDs[0].GID
	path, err := c.Path(context.Background(), port, sa.PathQuery{SGID: mine, DGID: ci.GID{0xfe, 0x80, 15: 0x22}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("LID %#x, %v\n", path.DLID, path.MTU)
	// Output: LID 0x11, MTU 2048
}
