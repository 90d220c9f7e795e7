// Command mutate measures the certifier by source mutation. It makes small changes to the software that the certifier
// judges, one at a time, and counts how many of them the certifier detects.
//
//	go run ./internal/mutate -n 300 -seed 1                     300 mutants, drawn by seed, by the certifier alone
//	go run ./internal/mutate -n 300 -seed 1 -tests              the tests of the packages judge the survivors, too
//	go run ./internal/mutate -packages rvt,sma -out r.jsonl     some packages; results in a file, for resuming
//	go run ./internal/mutate -survivors r.jsonl                 once more those that survived in a file of results
//	go run ./internal/mutate -list -n 20                        the mutants that a run would try
//
// A mutant is a text edit of one expression or statement. It is built with go build -overlay, so the tree stays as it
// is, and a changed package is the only one with another source. A mutant that does not compile is replaced by the next
// one of the sample. Calls of Lock and Unlock are never changed: races have a detector of their own.
//
// The certifier runs over the links and layers through which it reaches the mutated package (see routes). A mutant is
// killed if a run ends with status 1 (a requirement failed), 3 (the driver crashed) or 7 (a claim is not tested), or if
// a run takes many times as long as without mutants. Runs with status 5 or 6 (inconclusive, flaky) are repeated once.
//
// The mutation score is the share of mutants that the certifier killed. Code that no certifier can observe is listed in
// exclusions.yaml with the reason. A run prints how many mutants of its sample are excluded, and why.
package main
