package sa_test

import (
	"context"
	"errors"
	"fmt"
	"time"

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

// subnet is a port with a client of its administrator. In these examples the administrator is an agent of the same
// port. Usually it is a program in the subnet, such as OpenSM.
type subnet struct {
	client        *sa.Client
	port          mads.Port
	administrator mads.Agent
	lid           ci.LID // of the port, and of the administrator
	close         func() error
}

// newSubnet returns a subnet whose administrator answers with a function: it changes a request to the response, and
// returns the records of a table.
func newSubnet(answer func(q *mad.SA) (table []byte)) (*subnet, error) {
	al := accesslayer.New(accesslayer.Config{})
	hca, err := reference.New(reference.Config{Ports: []rvt.Port{testenv.Must(direct.New(direct.NewLink(),
		direct.Config{LID: 5}))}})
	if err != nil {
		return nil, err
	}
	if err := al.Register(hca); err != nil {
		return nil, err
	}
	services, err := mads.New(al, mads.Config{})
	if err != nil {
		return nil, err
	}
	if err := al.WaitPnP(context.Background()); err != nil {
		return nil, err
	}
	s := &subnet{port: services.Ports()[0], lid: 5}
	ready := make(chan struct{})
	s.administrator, err = services.Register(mads.AgentConfig{Name: "SA", Port: s.port, Class: mad.ClassSubnetAdmin,
		Version: mad.ClassVersionSubnetAdmin, RMPP: true,
		Methods: []mad.Method{mad.Get, mad.Set, mad.Delete, mad.GetTable},
		OnReceive: func(r *mads.Received) {
			<-ready
			var q mad.SA
			if mad.ParseSA(r.MAD, &q) != nil {
				return
			}
			table := answer(&q)
			if q.Method |= mad.ResponseMask; q.Method == mad.Set|mad.ResponseMask {
				q.Method = mad.GetResp
			}
			b := make([]byte, mad.Size)
			q.Put(b)
			if table != nil { // it is sent in segments
				b = append(b[:mad.SAHeaderLen], table...)
			}
			_ = s.administrator.Send(&mads.Message{To: r.From, MAD: b})
		}})
	if err != nil {
		return nil, err
	}
	close(ready)
	s.client = sa.New(al, services, sa.Config{})
	s.close = func() error {
		return errors.Join(s.client.Close(), services.Close(), al.Close(), hca.Close())
	}
	return s, nil
}

// All links of the subnet, in a table of any length.
func ExampleAttribute_Table() {
	s, err := newSubnet(func(q *mad.SA) []byte {
		q.AttributeOffset = 1 // a record takes 8 bytes
		table := make([]byte, 0, 3*8)
		for lid := uint16(1); lid <= 3; lid++ {
			var b [8]byte
			l := mad.LinkRecord{FromLID: lid, FromPort: 1, ToLID: 10, ToPort: uint8(lid)}
			l.Put(b[:])
			table = append(table, b[:]...)
		}
		return table
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = s.close() }()

	links, err := sa.LinkRecords.Table(context.Background(), s.client, s.port, mad.LinkRecord{}, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, l := range links {
		fmt.Printf("LID %d port %d to LID %d port %d\n", l.FromLID, l.FromPort, l.ToLID, l.ToPort)
	}
	// Output:
	// LID 1 port 1 to LID 10 port 1
	// LID 2 port 1 to LID 10 port 2
	// LID 3 port 1 to LID 10 port 3
}

// The port is a member of a group until Destroy. The administrator assigns the LID of the group.
func ExampleClient_NewMembership() {
	s, err := newSubnet(func(q *mad.SA) []byte {
		var r mad.MCMemberRecord
		r.Parse(q.Data[:])
		if q.Method == mad.Delete {
			fmt.Println("the port leaves the group")
		}
		r.MLID, r.MTU = 0xc001, mad.MTU2048
		r.Put(q.Data[:])
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = s.close() }()

	m, err := s.client.NewMembership(context.Background(), s.port, sa.MembershipConfig{
		Record: mad.MCMemberRecord{MGID: [16]byte{0xff, 0x12, 0xa0, 0x1b, 0xff, 0xff, 15: 7}},
		OnChange: func(group *mad.MCMemberRecord, err error) {
			// After a restart of the subnet manager, the group may have another LID.
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("joined %#x\n", m.Group().MLID)
	if err := m.Destroy(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// joined 0xc001
	// the port leaves the group
}

// A service that the port offers, and that other ports find by its name.
func ExampleClient_NewService() {
	var held mad.ServiceRecord
	s, err := newSubnet(func(q *mad.SA) []byte {
		switch q.Method {
		case mad.Set:
			held.Parse(q.Data[:])
		case mad.Delete:
			held = mad.ServiceRecord{}
		default:
			held.Put(q.Data[:])
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = s.close() }()

	rec := mad.ServiceRecord{ServiceID: 0x1000_0000_0000_0001}
	_ = rec.SetName("storage") // at most 64 bytes
	ctx := context.Background()
	service, err := s.client.NewService(ctx, s.port, sa.ServiceConfig{Record: rec, Lease: time.Hour})
	if err != nil {
		fmt.Println(err)
		return
	}
	found, err := sa.ServiceRecords.Get(ctx, s.client, s.port, rec, mad.ServiceName)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s: %#x, for %d s\n", found.NameString(), uint64(found.ServiceID), found.Lease)
	fmt.Println(service.Destroy())
	// Output:
	// storage: 0x1000000000000001, for 3600 s
	// <nil>
}

// Notices about ports that come into the subnet.
func ExampleClient_NewSubscription() {
	s, err := newSubnet(func(*mad.SA) []byte { return nil }) // it accepts all requests
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = s.close() }()

	arrived := make(chan ci.GID, 1)
	sub, err := s.client.NewSubscription(context.Background(), s.port, sa.SubscriptionConfig{
		Trap: mad.TrapGIDInService,
		OnNotice: func(n *mad.NoticeRecord) {
			var d mad.TrapGID
			d.Parse(n.Notice.Details[:])
			arrived <- d.GID
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	// The administrator reports a port.
	n := mad.NoticeRecord{Notice: mad.Notice{Generic: true, Type: mad.NoticeInfo, Producer: mad.ProducerManager,
		Trap: mad.TrapGIDInService, IssuerLID: uint16(s.lid)}}
	d := mad.TrapGID{GID: [16]byte{0xfe, 0x80, 15: 9}}
	d.Put(n.Notice.Details[:])
	report := mad.SA{Header: mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassSubnetAdmin,
		ClassVersion: mad.ClassVersionSubnetAdmin, Method: mad.Report, Attribute: mad.AttrNotice}}
	n.Put(report.Data[:])
	b := make([]byte, mad.Size)
	report.Put(b)
	_, err = s.administrator.Do(context.Background(), &mads.Message{MAD: b,
		To: mads.Address{AV: ci.AVAttr{DLID: s.lid}, QPN: 1}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%x\n", <-arrived)
	fmt.Println(sub.Destroy())
	// Output:
	// fe800000000000000000000000000009
	// <nil>
}
