package usersuite

import (
	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// The driver's own user library. (SAS 2.4.)
var libraries = area()

var _ = libraries.Case(validate.Case{
	ID:    "user.library.traffic",
	Title: "traffic of a process with the driver's own user library",
	Run:   libraryTraffic,
	Needs: validate.Needs{Caps: ci.CapUser},
	// Opening the adapter and creating objects with the library is what the case tests.
	TestsSetup: true,
}, req.SAS2_4_01)

func libraryTraffic(t *validate.T) {
	lib := *t.UserLibrary()
	s := startStage(t, new(trace), nil)
	kit.Equal(t, "UserLibrary.Name", lib.Name, t.HCA().Info().Library)
	a := s.with(&lib)
	p := a.pair()
	_, accompanied := ci.UserHandle[any](p.A.QP.CA.CA)
	kit.True(t, accompanied, "the library's handle of the CA", "one", "none")
	s.trace.take()
	for _, n := range []int{0, 1, 3000, 20000} {
		p.A.Exchange(p.B, n)
		p.B.Exchange(p.A, n)
	}
	for _, verb := range []string{"QP.PostSend", "QP.PostRecv", "CQ.Poll"} {
		if n := s.trace.count("message " + verb); n > 0 {
			t.Note("%d calls of %s crossed the process boundary: the library does not replace it", n, verb)
		}
	}
	a.cut()
	s.gone("the daemon after the application was cut")
}
