"""The convolutions of AlexNet, VGG16 and SqueezeNet 1.1, as far as LPIPS and DISTS go, on torch alone.

Each backbone takes torchvision's tensors by their names there, and images, and gives its stages' outputs one after the
other, so that nobody need keep them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from twoafc.distances.batches import Batch
from twoafc.distances.weights import Tensors
from twoafc.errors import require

Backbone = Callable[[Tensors, Batch], Iterator[Batch]]

# The convolutions of each stage; a pooling stands before every stage but the first.
VGG16_STAGES = ((0, 2), (5, 7), (10, 12, 14), (17, 19, 21), (24, 26, 28))
# The fire modules after which a stage ends; a pooling stands before modules 3, 6 and 9.
SQUEEZENET_STAGES = ((3, 4), (6, 7), (9,), (10,), (11,), (12,))
SQUEEZENET_POOLED = (3, 6, 9)


def alexnet(tensors: Tensors, images: Batch) -> Iterator[Batch]:
    """Give AlexNet's five stages, from images of at least 31 x 31 pixels."""
    torch = require("torch", extra="torch")
    images = convolved(tensors, "features.0", images, stride=4, padding=2)
    yield images
    images = convolved(tensors, "features.3", torch.max_pool2d(images, 3, 2), padding=2)
    yield images
    images = convolved(tensors, "features.6", torch.max_pool2d(images, 3, 2), padding=1)
    yield images
    for layer in ("features.8", "features.10"):
        images = convolved(tensors, layer, images, padding=1)
        yield images


def vgg16(tensors: Tensors, images: Batch, *, pool: Callable[[Batch], Batch] | None = None) -> Iterator[Batch]:
    """Give VGG16's five stages, from images of at least 16 x 16 pixels; `pool` may stand for its maximum pooling."""
    torch = require("torch", extra="torch")
    for stage, layers in enumerate(VGG16_STAGES):
        if stage:
            images = pool(images) if pool else torch.max_pool2d(images, 2)
        for layer in layers:
            images = convolved(tensors, f"features.{layer}", images, padding=1)
        yield images


def squeezenet(tensors: Tensors, images: Batch) -> Iterator[Batch]:
    """Give the seven stages of SqueezeNet 1.1 that LPIPS uses, from images of at least 17 x 17 pixels."""
    torch = require("torch", extra="torch")
    images = convolved(tensors, "features.0", images, stride=2)
    yield images
    for modules in SQUEEZENET_STAGES:
        for module in modules:
            if module in SQUEEZENET_POOLED:
                images = torch.max_pool2d(images, 3, 2, ceil_mode=True)
            squeezed = convolved(tensors, f"features.{module}.squeeze", images)
            narrow = convolved(tensors, f"features.{module}.expand1x1", squeezed)
            wide = convolved(tensors, f"features.{module}.expand3x3", squeezed, padding=1)
            images = torch.cat((narrow, wide), dim=1)
        yield images


def convolved(tensors: Tensors, layer: str, images: Batch, *, stride: int = 1, padding: int = 0) -> Batch:
    """Convolve with a layer's weights and bias, and set what is negative to 0."""
    return rectified(images, tensors[f"{layer}.weight"], tensors[f"{layer}.bias"], stride=stride, padding=padding)


def rectified(images: Batch, weight: Batch, bias: Batch, *, stride: int = 1, padding: int = 0) -> Batch:
    """Convolve, add a bias, and set what is negative to 0."""
    torch = require("torch", extra="torch")
    if images.is_cuda and torch.version.cuda and torch.backends.cudnn.enabled:
        # All in one pass over the memory: the same numbers, in two thirds of the time where memory is the limit.
        return torch.cudnn_convolution_relu(
            images, weight, bias, (stride, stride), (padding, padding), dilation=(1, 1), groups=1
        )
    return torch.conv2d(images, weight, bias, stride=stride, padding=padding).relu_()
