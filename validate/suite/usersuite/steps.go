package usersuite

import (
	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// The ten steps of a create. (SAS 2.4.)
var steps = area()

var _ = steps.Add("user.step.create",
	"the driver receives the application's create once, with its arguments", func(t *validate.T) {
		s := newStage(t)
		ca := s.app().open()
		pd := ca.PD()
		for _, size := range []int{1, 5, 100} {
			before := s.probe.living()["CQ"]
			s.trace.take()
			cq, err := pd.CreateCQ(ci.CQCreate{Size: size})
			kit.OK(t, err, "PD.CreateCQ")
			kit.Equal(t, "calls of the driver's CreateCQ", s.trace.count("driver CreateCQ"), 1)
			kit.Equal(t, "CQCreate.Size at the driver", s.probe.lastCQ().Size, size)
			kit.Equal(t, "CQs at the driver", s.probe.living()["CQ"]-before, 1)
			kit.OK(t, cq.Destroy(), "CQ.Destroy")
			kit.Equal(t, "CQs at the driver after CQ.Destroy", s.probe.living()["CQ"], before)
		}
	}, req.SAS2_4_04)

var _ = steps.Add("user.step.pre",
	"the pre hook runs before the message, and its failure ends the verb", func(t *validate.T) {
		s := newStage(t)
		a := s.app()
		pd := a.open().PD()
		s.trace.take()
		cq, err := pd.CreateCQ(ci.CQCreate{Size: 4})
		kit.OK(t, err, "PD.CreateCQ")
		s.trace.want(t, "order of a create", "pre CreateCQ", "message PD.CreateCQ", "driver CreateCQ", "post CreateCQ")
		kit.OK(t, cq.Destroy(), "CQ.Destroy")

		t.Step("a pre hook that fails")
		a.lib.before(func(verb string, _ any, _ *ci.UserBuffer) error {
			if verb == "CreateCQ" {
				return ci.InsufficientMemory
			}
			return nil
		})
		s.trace.take()
		cq, err = pd.CreateCQ(ci.CQCreate{Size: 4})
		kit.WantRefused(t, cq, err, "PD.CreateCQ whose pre hook fails", ci.InsufficientMemory)
		s.trace.want(t, "what follows a pre hook that fails", "pre CreateCQ")

		t.Step("arguments that the pre hook changes")
		a.lib.before(func(_ string, a any, _ *ci.UserBuffer) error {
			if c, ok := a.(*ci.UserCreateCQ); ok {
				c.Create.Size = 33
			}
			return nil
		})
		cq, err = pd.CreateCQ(ci.CQCreate{Size: 4})
		kit.OK(t, err, "PD.CreateCQ")
		kit.Equal(t, "CQCreate.Size at the driver, which the pre hook has set", s.probe.lastCQ().Size, 33)
		kit.OK(t, cq.Destroy(), "CQ.Destroy")
	}, req.SAS2_4_05)

var _ = steps.Add("user.step.no-library",
	"without a library, no hook runs, and the driver receives empty private data", func(t *validate.T) {
		s := newStage(t)
		lib := (&library{trace: s.trace}).vendor()
		old := *lib
		old.Version += 1 << 16 // another major version
		other := *lib
		other.Name = "another vendor's"
		for _, libs := range [][]*ci.UserLibrary{nil, {&old, &other}} {
			pd := s.with(libs...).open().PD()
			s.trace.take()
			cq, err := pd.CreateCQ(ci.CQCreate{Size: 4})
			kit.OK(t, err, "PD.CreateCQ without a user library")
			s.trace.want(t, "order of a create without a user library", "message PD.CreateCQ", "driver CreateCQ")
			kit.Equal(t, "private data at the driver", s.probe.seen("CreateCQ"), describe(new(ci.UserBuffer)))
			kit.OK(t, cq.Destroy(), "CQ.Destroy")
		}
	}, req.SAS2_4_05, req.SAS2_4_16)

var _ = steps.Add("user.step.access-layer",
	"objects of applications belong to the access layer, which destroys them when it removes the adapter",
	stepAccessLayer, req.SAS2_4_07)

func stepAccessLayer(t *validate.T) {
	s := newStage(t)
	ca := s.app().open()
	pd := ca.PD()
	cq := ca.CQ(pd, 8)
	ca.QP(pd, cq, cq)
	ca.Buf(pd, 64, kit.AllAccess)
	live := s.probe.living()
	for _, kind := range []string{"UserCA", "PD", "CQ", "QP", "MR"} {
		kit.Equal(t, "objects of kind "+kind+" at the driver", live[kind], 1)
	}
	kit.OK(t, s.al.Deregister(s.guids[0]), "Registrar.Deregister while an application uses the adapter")
	live = s.probe.living()
	kit.True(t, len(live) == 0, "objects at the driver after Deregister", "none", "%v", live)
	_, err := cq.Query()
	kit.True(t, err != nil, "CQ.Query after Deregister", "an error", "success")
}

var _ = steps.Add("user.step.post",
	"the post hook runs after the driver, with its status, whether it succeeded or failed", func(t *validate.T) {
		s := newStage(t)
		a := s.app()
		pd := a.open().PD()
		post := make(chan string, 4)
		a.lib.after(func(verb string, _ any, ub *ci.UserBuffer, err error) error {
			if verb == "CreateCQ" {
				post <- kit.Describe(err) + "; " + describe(&ci.UserBuffer{Status: ub.Status, In: ub.Out})
			}
			return nil
		})
		cq, err := pd.CreateCQ(ci.CQCreate{Size: 4})
		kit.OK(t, err, "PD.CreateCQ")
		kit.Equal(t, "the post hook's view of a create that succeeded", <-post,
			"success; "+describe(&ci.UserBuffer{In: []byte(replyTo("CreateCQ"))}))
		kit.OK(t, cq.Destroy(), "CQ.Destroy")

		t.Step("a create that fails in the driver")
		s.probe.handle(func(verb string, ub *ci.UserBuffer) error {
			reply(ub)
			if verb == "CreateCQ" {
				return &ci.Error{Verb: "PD.CreateCQ", Status: ci.InvalidCQSize}
			}
			return nil
		})
		s.trace.take()
		cq, err = pd.CreateCQ(ci.CQCreate{Size: 4})
		kit.WantRefused(t, cq, err, "PD.CreateCQ that fails in the driver", ci.InvalidCQSize)
		s.trace.want(t, "order of a create that fails", "pre CreateCQ", "message PD.CreateCQ", "driver CreateCQ",
			"post CreateCQ: "+ci.Status(ci.InvalidCQSize).String())
		got := <-post
		want := describe(&ci.UserBuffer{Status: privateStatus})
		kit.True(t, len(got) >= len(want) && got[len(got)-len(want):] == want,
			"private data that the post hook of a failed create sees", want, "%s", got)

		t.Step("a verb of an existing object that fails in the driver")
		s.probe.handle(nil)
		cq, err = pd.CreateCQ(ci.CQCreate{Size: 4})
		kit.OK(t, err, "PD.CreateCQ")
		s.probe.handle(func(string, *ci.UserBuffer) error { return ci.InvalidCQSize })
		s.trace.take()
		_, err = cq.Resize(ci.CQResize{Size: 9})
		kit.WantExactly(t, err, "CQ.Resize that fails in the driver", ci.InvalidCQSize)
		s.trace.want(t, "order of a resize that fails", "pre ResizeCQ", "message CQ.Resize", "driver ResizeCQ",
			"post ResizeCQ: "+ci.Status(ci.InvalidCQSize).String())
		s.probe.handle(nil)
		kit.OK(t, cq.Destroy(), "CQ.Destroy")
	}, req.SAS2_4_12)

var _ = steps.Add("user.step.handle",
	"the application receives an object with the library's handle, unless the post hook fails", func(t *validate.T) {
		s := newStage(t)
		a := s.app()
		ca := a.open()
		pd := ca.PD()
		cq, err := pd.CreateCQ(ci.CQCreate{Size: 4})
		kit.OK(t, err, "PD.CreateCQ")
		for _, x := range []struct {
			o    any
			what string
			want string
		}{{ca.CA, "CA", "OpenCA"}, {pd, "PD", "AllocatePD"}, {cq, "CQ", "CreateCQ"}} {
			got, _ := ci.UserHandle[string](x.o)
			kit.Equal(t, "the library's handle of the "+x.what, got, x.want)
		}
		attr, err := cq.Query()
		kit.OK(t, err, "CQ.Query of the object that the create returned")
		kit.AtLeast(t, "CQAttr.Size", attr.Size, 4)
		kit.OK(t, cq.Destroy(), "CQ.Destroy")

		t.Step("a post hook that fails")
		before := s.probe.living()["CQ"]
		seen := 0
		a.lib.after(func(verb string, a any, _ *ci.UserBuffer, err error) error {
			if verb != "CreateCQ" || err != nil {
				return nil
			}
			seen = a.(*ci.UserCreateCQ).Granted
			return ci.InsufficientResources
		})
		cq, err = pd.CreateCQ(ci.CQCreate{Size: 4})
		kit.WantRefused(t, cq, err, "PD.CreateCQ whose post hook fails", ci.InsufficientResources)
		kit.AtLeast(t, "size that the post hook sees", seen, 4)
		kit.Equal(t, "CQs at the driver after a post hook has failed", s.probe.living()["CQ"], before)
	}, req.SAS2_4_13)
