package usersuite

import (
	"os"

	"ciddk/ci"
	"ciddk/kproxy/schema"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

var _ = descriptors.Case(validate.Case{
	ID: "user.descriptor.kinds",
	Title: "descriptors of each kind in private data: the driver gets sockets, pipes, devices and sealed memory, and " +
		"no file or folder",
	Run: descriptorKindsRun,
}, req.SAS2_4_06)

func descriptorKindsRun(t *validate.T) {
	s := newStage(t)
	x := s.direct()
	own := x.basics()
	for _, v := range descriptorKinds(t) {
		mine, err := v.f.Stat()
		if err != nil {
			t.Harness("%s: %v", v.what, err)
		}
		var seen []os.FileInfo
		s.probe.handle(func(verb string, ub *ci.UserBuffer) error {
			reply(ub)
			for _, f := range ub.InFiles {
				i, err := f.Stat()
				if err != nil {
					return err
				}
				seen = append(seen, i)
			}
			return nil
		})
		h, _, err := x.exchange(schema.CmdCreateCQ, encode(&schema.CreateCQ{PD: own.pd, Size: 4,
			User: schema.UserBuffer{Present: true, Files: 1}}), v.f)
		where := "PD.CreateCQ with " + v.what + " in private data"
		kit.OK(t, err, "the connection after "+where)
		if !v.passes {
			kit.Equal(t, "status of "+where, h.Status, ci.InvalidPermission)
			kit.Equal(t, "descriptors at the driver of "+where, len(seen), 0)
		} else {
			kit.Equal(t, "status of "+where, h.Status, ci.Status(0))
			kit.Equal(t, "descriptors at the driver of "+where, len(seen), 1)
			kit.True(t, os.SameFile(mine, seen[0]), "the descriptor at the driver of "+where, "the one that was sent",
				"another one")
		}
		s.probe.handle(nil)
		_, err = x.create(schema.CmdRegisterMR, &schema.RegisterMR{PD: own.pd, Memory: schema.Memory{Length: 4096,
			Access: ci.LocalWrite, Shared: true}}, v.f)
		if !v.passes || mine.Mode()&os.ModeType != 0 {
			kit.WantExactly(t, err, "PD.RegisterMR with "+v.what, ci.InvalidPermission)
		}
	}
	kit.OK(t, x.do(schema.CmdQueryCQ, &schema.CQ{CQ: own.cq}, &schema.QueryCQReply{}), "CQ.Query")
}
