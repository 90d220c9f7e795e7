package ciwrap_test

import (
	"fmt"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
)

// counting counts the requests posted through it.
type counting struct {
	ciwrap.QP
	n *int
}

func (q *counting) PostSend(wrs []ci.SendWR) (int, error) {
	n, err := q.QP.PostSend(wrs)
	*q.n += n
	return n, err
}

func Example() {
	posted := 0
	hca := ciwrap.Wrap(driver{}, ciwrap.Layer{
		QP: func(in ci.QP, _ ci.QPCreate) ci.QP { return &counting{QP: ciwrap.QP{QP: in}, n: &posted} },
	})
	ca, _ := hca.OpenCA(1, func(ci.Event) {}, nil)
	pd, _ := ca.AllocatePD(ci.PDNormal)
	qp, _ := pd.CreateQP(ci.QPCreate{})
	_, _ = qp.PostSend(make([]ci.SendWR, 3))
	_, bare := ci.As[driversQP](qp)
	fmt.Println(posted, bare)
	// Output: 3 true
}

// A driver that is as small as one can be.
type (
	driver    struct{ ci.HCA }
	driversCA struct{ ci.CA }
	driversPD struct{ ci.PD }
	driversQP struct{ ci.QP }
)

func (driver) OpenCA(ci.GUID, func(ci.Event), any) (ci.CA, error) { return driversCA{}, nil }
func (driversCA) AllocatePD(ci.PDType) (ci.PD, error)             { return driversPD{}, nil }
func (driversPD) CreateQP(ci.QPCreate) (ci.QP, error)             { return driversQP{}, nil }
func (driversQP) PostSend(wrs []ci.SendWR) (int, error)           { return len(wrs), nil }
