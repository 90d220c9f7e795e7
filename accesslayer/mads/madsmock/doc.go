// Package madsmock contains gomock mocks of MAD services, for tests of packages that use them. Run go generate in this
// folder after a change of mads.Service or mads.Agent; otherwise the test of the package does not compile.
package madsmock

//go:generate go tool mockgen -write_package_comment=false -destination=mocks.go -package=madsmock ciddk/accesslayer/mads Service,Agent
