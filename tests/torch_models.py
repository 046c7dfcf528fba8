"""PyTorch models of the tests, with weights from a seed. The import needs PyTorch."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


def seeded(module: nn.Module) -> nn.Module:
    """The module in eval mode with weights, biases and statistics as after some training."""
    chance = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, each in (*module.named_parameters(), *module.named_buffers()):
            if not each.is_floating_point():
                continue
            if name.endswith("running_var"):
                each.copy_(torch.rand(each.shape, generator=chance) + 0.5)
            elif each.dim() > 1:
                each.copy_(torch.randn(each.shape, generator=chance) * each[0].numel() ** -0.5)
            else:
                each.copy_(torch.randn(each.shape, generator=chance) * 0.1 + name.endswith("weight"))
    return module.eval()


def _normed(*layers: nn.Module, channels: int, bounded: bool = True) -> nn.Sequential:
    return nn.Sequential(*layers, nn.BatchNorm2d(channels), *([nn.ReLU6()] if bounded else []))


def _windows(inputs: int, outputs: int, stride: int, groups: int, as_tensorflow: bool) -> list[nn.Module]:
    """A convolution of 3x3 windows. With a stride of 2 TensorFlow pads an even map on two sides, PyTorch on four."""
    if stride == 1 or not as_tensorflow:
        return [nn.Conv2d(inputs, outputs, 3, stride, 1, groups=groups, bias=False)]
    return [nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(inputs, outputs, 3, stride, groups=groups, bias=False)]


class Bottleneck(nn.Module):
    """MobileNetV2's block (Sandler et al., table 1): 1x1 expansion, 3x3 depthwise, 1x1 projection."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int, as_tensorflow: bool = False) -> None:
        super().__init__()
        inner = inputs * expansion
        self.layers = nn.Sequential(
            *([_normed(nn.Conv2d(inputs, inner, 1, bias=False), channels=inner)] if expansion > 1 else []),
            _normed(*_windows(inner, inner, stride, inner, as_tensorflow), channels=inner),
            _normed(nn.Conv2d(inner, outputs, 1, bias=False), channels=outputs, bounded=False),
        )
        self.skips = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layers(x)
        return x + y if self.skips else y


class MobileNetV2(nn.Module):
    """Sandler et al., table 2."""

    TABLE = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))

    def __init__(
        self,
        width: float = 1.0,
        classes: int = 1000,
        last: int = 1280,
        blocks: int = len(TABLE),
        as_tensorflow: bool = False,
    ) -> None:
        super().__init__()

        def scaled(channels: int) -> int:
            return max(8, round(channels * width / 8) * 8)

        now = scaled(32)
        layers: list[nn.Module] = [_normed(*_windows(3, now, 2, 1, as_tensorflow), channels=now)]
        for expansion, channels, repeats, stride in self.TABLE[:blocks]:
            for repeat in range(repeats):
                layers.append(Bottleneck(now, scaled(channels), 1 if repeat else stride, expansion, as_tensorflow))
                now = scaled(channels)
        layers.append(_normed(nn.Conv2d(now, last, 1, bias=False), channels=last))
        self.features = nn.Sequential(*layers)
        self.dropout = nn.Dropout(0.2)
        self.classifier = nn.Linear(last, classes)

    def forward(self, image: Tensor) -> Tensor:
        y = self.features(image)
        return self.classifier(self.dropout(functional.adaptive_avg_pool2d(y, 1).flatten(1)))


class ResNet(nn.Module):
    """Two residual blocks, the second with a projection, and pools of both kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
        self.a = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1))
        self.b = nn.Sequential(nn.Conv2d(8, 12, 3, 2, 1), nn.ReLU(), nn.Conv2d(12, 12, 3, padding=1))
        self.project = nn.Conv2d(8, 12, 1, 2)
        self.head = nn.Sequential(nn.AvgPool2d(2), nn.Flatten(), nn.Linear(12, 5))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = torch.relu(x + self.a(x))
        x = torch.relu(self.project(x) + self.b(x))
        return torch.softmax(self.head(x), 1)


class Transformer(nn.Module):
    """An encoder layer: attention of two heads and a feed-forward part, each with a norm before and a skip."""

    def __init__(self, size: int = 16) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(size), nn.LayerNorm(size)])
        self.attention = nn.MultiheadAttention(size, 2, batch_first=True)
        self.forward_part = nn.Sequential(nn.Linear(size, 32), nn.GELU(), nn.Linear(32, size))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norms[0](x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        y = x + self.forward_part(self.norms[1](x))
        return y


class Attention(nn.Module):
    """Scaled dot products of three inputs."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(query, key, value)


class Ends(nn.Module):
    """Two outputs, one of them a view of the input, and integers."""

    def forward(self, x: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        return x.reshape(6, 4)[index], x.transpose(1, 2)


class Sum(nn.Module):
    """Any number of images of any height."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean((2, 3)) + x.shape[2]


class Recurrent(nn.Module):
    """An LSTM and a GRU over the steps of a sequence, and a decision from the last one."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.LSTM(6, 8), nn.GRU(8, 5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        y, _ = self.first(x)
        y, _ = self.second(y)
        return self.head(y[-1])


class Calls(nn.Module):
    """Calls a module."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


class Saves(nn.Module):
    """Has ops that touch files, in both branches."""

    def __init__(self, place: str) -> None:
        super().__init__()
        self.place = place

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            x = torch.from_file(self.place, False, 4)
        else:
            torch.save(x, self.place)
        return x


class Restores(nn.Module):
    """Writes a file when it is loaded, before anything else can be asked of it."""

    def __init__(self, place: str) -> None:
        super().__init__()
        self.place = place

    @torch.jit.export
    def __getstate__(self) -> tuple[str, bool]:
        return self.place, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[str, bool]) -> None:
        self.place = state[0]
        self.training = state[1]
        torch.save(torch.zeros(2), state[0])

    def forward(self, x: Tensor) -> Tensor:
        return x


MODELS: dict[str, tuple[nn.Module, tuple[Tensor, ...]]] = {
    "mobilenet": (MobileNetV2(0.25, 10, 32, 3), (torch.zeros(1, 3, 32, 32),)),
    "resnet": (ResNet(), (torch.zeros(1, 3, 8, 8),)),
    "transformer": (Transformer(), (torch.zeros(1, 5, 16),)),
    "attention": (Attention(), tuple(torch.zeros(1, 2, 5, 8) for _ in range(3))),
    "recurrent": (Recurrent(), (torch.zeros(7, 1, 6),)),
    "ends": (Ends(), (torch.zeros(1, 4, 6), torch.tensor([1, 0, 3]))),
}
"""By name: a module, and an example of its inputs."""
