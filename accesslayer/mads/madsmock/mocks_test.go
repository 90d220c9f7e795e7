package madsmock_test

import (
	"testing"

	"github.com/golang/mock/gomock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/mads"
	"ciddk/accesslayer/mads/madsmock"
	"ciddk/ci"
)

// A stale mock does not compile here.
var (
	_ mads.Service = (*madsmock.MockService)(nil)
	_ mads.Agent   = (*madsmock.MockAgent)(nil)
)

func TestMocks(t *testing.T) {
	ctrl := gomock.NewController(t)
	s, a := madsmock.NewMockService(ctrl), madsmock.NewMockAgent(ctrl)
	s.EXPECT().Register(gomock.Any()).Return(a, nil)
	a.EXPECT().Send(gomock.Any()).Return(ci.InsufficientResources)
	got, err := s.Register(mads.AgentConfig{})
	require.NoError(t, err)
	assert.ErrorIs(t, got.Send(&mads.Message{}), ci.InsufficientResources)
}
