package usersuite

import (
	"bytes"
	"os"

	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// Private data. (SAS 2.4.)
var buffers = area()

var _ = buffers.Add("user.buffer.copied",
	"the driver receives a copy of private data, and bad descriptors and sizes are rejected", func(t *validate.T) {
		s := newStage(t)
		a := s.app()
		pd := a.open().PD()
		var theirs []byte // the library's own bytes
		setIn := func(in []byte, files ...*os.File) {
			a.lib.before(func(verb string, _ any, ub *ci.UserBuffer) error {
				if verb == "CreateCQ" {
					ub.In, ub.InFiles = in, files
					theirs = in
				}
				return nil
			})
		}
		setIn([]byte("as it was when the hook returned"))
		var first, second []byte
		s.probe.handle(func(verb string, ub *ci.UserBuffer) error {
			if verb != "CreateCQ" {
				reply(ub)
				return nil
			}
			first = bytes.Clone(ub.In)
			// The application changes its bytes while the driver works.
			m, err := s.probe.process().Memory(ci.Bytes(theirs).Addr(), uint64(len(theirs)), ci.LocalWrite)
			if err != nil {
				return err
			}
			if _, err := m.WriteAt(bytes.Repeat([]byte{'X'}, len(theirs)), 0); err != nil {
				return err
			}
			second = bytes.Clone(ub.In)
			reply(ub)
			return nil
		})
		cq, err := pd.CreateCQ(ci.CQCreate{Size: 4})
		kit.OK(t, err, "PD.CreateCQ with private data")
		kit.SameBytes(t, "private data at the driver", first, []byte("as it was when the hook returned"))
		kit.SameBytes(t, "private data at the driver after the application has changed its own", second, first)
		kit.OK(t, cq.Destroy(), "CQ.Destroy")

		s.probe.handle(nil)
		for _, x := range []struct {
			step string
			in   []byte
			file func() (*os.File, error)
			want ci.Status
		}{
			{"more bytes than a message carries", make([]byte, schema.MaxPrivate+1), nil, ci.InvalidParameter},
			{"a file whose size may change", nil, func() (*os.File, error) { return os.Open(os.Args[0]) },
				ci.InvalidPermission},
		} {
			t.Step("%s", x.step)
			var files []*os.File
			if x.file != nil {
				f, err := x.file()
				if err != nil {
					t.Harness("%v", err)
				}
				t.Cleanup(func() { f.Close() })
				files = append(files, f)
			}
			setIn(x.in, files...)
			s.trace.take()
			cq, err := pd.CreateCQ(ci.CQCreate{Size: 4})
			kit.WantRefused(t, cq, err, "PD.CreateCQ with "+x.step, x.want)
			kit.Equal(t, "calls of the driver with "+x.step, s.trace.count("driver CreateCQ"), 0)
		}
	}, req.SAS2_4_06)

var _ = buffers.Add("user.buffer.opaque", "random private data of all sizes, in both directions", func(t *validate.T) {
	s := newStage(t)
	a := s.app()
	pd := a.open().PD()
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(t.Rand().Uint32())
		}
		return b
	}
	for _, n := range []int{0, 1, 7, 8, 9, 64, 255, 1024, schema.MaxPrivate} {
		t.Step("%d bytes", n)
		in, out := random(n), random(schema.MaxPrivate-n)
		command := t.Rand().Uint32()
		var gotIn, gotOut []byte
		var gotCommand uint32
		var status int32
		a.lib.before(func(verb string, _ any, ub *ci.UserBuffer) error {
			ub.Command, ub.In, ub.Out = command, in, make([]byte, 0, schema.MaxPrivate)
			return nil
		})
		a.lib.after(func(verb string, _ any, ub *ci.UserBuffer, _ error) error {
			if verb == "CreateCQ" {
				gotOut, status = bytes.Clone(ub.Out), ub.Status
			}
			return nil
		})
		s.probe.handle(func(verb string, ub *ci.UserBuffer) error {
			if verb == "CreateCQ" {
				gotIn, gotCommand = bytes.Clone(ub.In), ub.Command
			}
			ub.Status, ub.Out = 0, append(ub.Out[:0], out...)
			return nil
		})
		cq, err := pd.CreateCQ(ci.CQCreate{Size: 4})
		kit.OK(t, err, "PD.CreateCQ")
		kit.Equal(t, "UserBuffer.Command at the driver", gotCommand, command)
		kit.SameBytes(t, "private data at the driver", gotIn, in)
		kit.SameBytes(t, "private data at the library", gotOut, out)
		kit.Equal(t, "UserBuffer.Status at the library", status, 0)
		a.lib.before(nil)
		kit.OK(t, cq.Destroy(), "CQ.Destroy")
	}
}, req.SAS2_4_17)
