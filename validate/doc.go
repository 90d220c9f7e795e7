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
//   - A case of several variants names each with T.Step before it runs: a failure says in which it was.
//   - Traffic that must succeed and does not is reported with Failure.Doubt, so that a loss on the link is not charged to the driver; T.Inconclusive
//     is for a case that has seen what lost its traffic. See "Losses". The waits of package kit set Doubt where it applies.
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
// Cases run in worker processes: the same binary, started again (DESIGN decision 8). Two inherited pipes connect it to its parent, the
// channel: on one the parent hands out one case at a time, on the other come events, one JSON object a line (see Event). Each event begins
// with a nonce that the parent has drawn for this worker and told it on the channel. Standard output and standard error are the
// driver's: the parent drains them, keeps the first 64 KiB and the last 192 KiB, and shows the end with a failure. Standard input is
// empty.
//
// A worker that dies fails the case in flight with what it has printed; one that hangs is made to print its goroutines and then killed.
// Either way a fresh worker goes on with the next case. Lines without the nonce among the events, or their early end, fail the case in flight,
// too. A worker leads a process group of its own on Unix: the parent kills the group, and then waits for at most a few seconds, so
// that a run ends whatever a driver does. An interrupt ends the run with a report, a second one at once.
//
// All of this holds against mistakes: a driver that prints, floods, crashes, hangs, closes descriptors or leaves children. It does not hold against
// a driver that is made to deceive, for the driver runs in the worker's process: it can read the nonce from memory, write events with it, and change the
// certifier's code or the bytes that a case compares. What was certified is named by the hash of the binary in the report; where a driver is not
// trusted, build that binary from sources you have read, or certify through a process boundary, so that the cases run outside of the driver's process.
//
// Windows has no process groups: children of a driver live on. Systems without inherited files (js, wasip1, plan9) run cases in process.
//
// # Losses
//
// Traffic can fail because the link lost a packet or because the machine did not run a process in time. A finding that may have
// such a cause is in doubt (Failure.Doubt): DoubtLoss for traffic that must succeed and did not, DoubtTime for what did not come by a
// deadline of seconds. A hang is treated as the latter.
//
// The engine knows three things of an attempt (Conditions): whether the link can lose packets at all (Target.Lossless); whether it lost
// any of a thousand that Target.Probe sent right after the attempt; and how late the machine ran a goroutine of the worker that
// was due every 10 ms. Link and machine explain a finding
//
//   - DoubtLoss, if the link is not known to be quiet (neither Lossless, nor a probe without a loss), or if the machine ran the
//     goroutine 50 ms late or more at least once;
//   - DoubtTime, if the goroutine waited for at least half of the attempt's time, or the probe lost packets;
//   - a hang, if the goroutine waited for at least half of the attempt's time;
//   - T.Inconclusive always: the case has evidence of its own.
//
// A case whose findings are all explained is run again, alone and in a fresh worker, with timeouts twice and then four times as
// long, up to three times. It passes if an attempt passes, with a note. It fails if an attempt has a finding that link and machine do
// not explain. Otherwise it is inconclusive: that withholds the certificate (exit status 5) and is no finding against the driver.
//
// So a driver cannot hide behind a loss: on a quiet link and an idle machine a failure of its traffic has no explanation, and is one. Where the
// link is not known to be quiet, the driver is not certified either. A driver that burns the machine's time to have an
// excuse is inconclusive at best.
//
// A failure without an explanation is run again once. If it passes then, the case is flaky, which withholds the certificate, too (exit
// status 6). After five cases that lost their traffic in every attempt, further ones are not run again.
//
// # Status
//
//	pass    the requirement holds as far as the case can see
//	fail    it does not, or the driver panicked, hung, or left something behind
//	flaky   it failed, and passed when it was run again
//	skip    the driver does not claim what the case needs, or the case lies outside the profile
//	waived  it failed, and an expectation file says why that is known
//	error   the certifier itself failed; nothing is said about the driver
//
//	inconclusive  it lost traffic in every attempt, and the driver need not be the cause
package validate
