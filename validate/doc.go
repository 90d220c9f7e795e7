// Package validate is the engine of the certifier: it judges a driver, black box, through package ci alone, requirement by
// requirement. It knows no driver and no case; both are values that a program puts together (cmd/ddk-validate, or a vendor's test).
//
// # Words
//
//	requirement  one rule with a stable id, a level and a source           package validate/req
//	case         a piece of code that judges one requirement (Case)        packages validate/suite/...
//	suite        cases and the requirements they bring along (Suite)
//	catalog      suites put together and checked for doubles (Catalog)
//	driver       how to get HCAs of one kind (Driver); target, the HCAs got (Target)
//	feature      a part of the interface, a column of the matrix (Feature)
//	profile      the features a certificate speaks about, and the capabilities it demands (Profile)
//	plan         what to run and how (Plan); its Run gives a Report
//
// # For authors of cases
//
// A case is a value. It is listed in an area, a Suite of its own in a file named for it, and the areas are joined by the package's Suite:
//
//	func sendArea() validate.Suite {
//		return validate.Suite{
//			Requirements: []req.Requirement{{
//				ID: "CI-PostSend-01", Text: "A queue that is full refuses the next request with InsufficientResources.",
//				Level: req.Must, Section: "IBTA 11.4.1.1", Source: "ci_post_send (55)", Scope: req.Driver,
//			}},
//			Cases: []validate.Case{{
//				ID: "rc.send.full", Title: "post to a full send queue",
//				Requirements: []string{"CI-PostSend-01", "SAS-2.1-23"},
//				Feature: validate.FeatureRC,
//				Run: sendFull,
//			}},
//		}
//	}
//
//	func sendFull(t *validate.T) {
//		p := kit.RC(t, kit.Depth(4))            // opened, registered, connected, and cleaned up afterwards
//		n, err := p.A.QP.PostSend(p.A.SendWRs(5))
//		kit.Want(t, err, "PostSend of 5 to a queue of 4", ci.InsufficientResources)
//		kit.Equal(t, "requests taken", n, 4)
//		p.A.CQ.Wait(4)
//	}
//
// Rules
//
//   - The first requirement is the one the case judges. A failure is charged to it, unless Failure.Rule names another of the list.
//     A failure while the stage is set (opening, connecting) is marked Setup: the driver is at fault, but the rule is not judged.
//     The constructors of package kit mark theirs so.
//   - Ids are dotted, lower case, and never change: area.subject.detail. Requirement ids: see package req.
//   - A case says what it needs (Needs): capabilities, link, number of HCAs or ports, faults on the wire. If the driver does not
//     claim that, the case is skipped and says so. A need is never tested inside Run, except by T.Skip with a reason that the
//     attributes prove.
//   - Run owns nothing but T. Everything it makes is destroyed by T.Cleanup (kit does that), last made first. Objects left over
//     are a failure where the target counts them.
//   - A bad link is asked for with Needs.Impair, and made with T.Impair: the target is then opened with what that takes, and the link is
//     good until the case says otherwise, and good again afterwards.
//   - Packets are sent and received at an end of the link without an adapter: ask with Needs.Wire, open with T.Wire, and keep what passes with
//     T.Packet and T.Remark, so that a failure has its capture. Package suite/wire has a peer that does all that.
//   - No sleeping: wait with kit's CQ.Wait and Events.Wait, which have the case's deadline. T.Context ends with the deadline.
//   - No randomness but T.Rand, which follows from the seed and the case's id, so that a failure can be run again.
//   - T.Fail and what is built on it end the case by runtime.Goexit, and so must run on the case's goroutine; on others, started with T.Go, use
//     T.Report, which records and goes on.
//   - Allowed variance is a T.Note; a contradiction of the sources met as the driver chose it is a T.Deviation. Neither fails.
//
// # For vendors
//
//	func TestDriver(t *testing.T) {
//		validate.TestDriver(t, validate.Driver{Name: "mine", Open: open}, validate.TestOptions{Catalog: cisuite.Catalog()})
//	}
//
// runs the same cases as subtests, each in a worker process, so that a panic or a hang of the driver fails one case. See Driver
// for what Open gives, and package cmd/ddk-validate/cli for the command line with your driver linked in.
//
// # Workers
//
// Cases run in worker processes: the same binary, started again (DESIGN decision 8). The parent hands out one case at a time on the
// worker's standard input and reads events from its standard output, one JSON object a line (see Event); nothing else connects them.
// A worker that dies fails the case in flight with what it wrote to standard error; one that hangs is made to print its goroutines
// and then ended. Either way a fresh worker goes on with the next case.
//
// # Status
//
//	pass    the requirement holds as far as the case can see
//	fail    it does not, or the driver panicked, hung, or left something behind
//	skip    the driver does not claim what the case needs, or the case lies outside the profile
//	waived  it failed, and an expectation file says why that is known
//	error   the certifier itself failed; nothing is said about the driver
package validate
