"""What every test begins with."""

import pytest
import torch


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)
