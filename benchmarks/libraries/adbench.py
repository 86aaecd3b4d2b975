"""Two problems of ADBench (https://arxiv.org/abs/1807.10129), which GradBench has, too: bundle
adjustment and hand tracking. They are written from their descriptions, with data made by random
numbers, and once for retrograd and PyTorch, which share the names.

Each is a function of one vector, and the Jacobian is sparse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Problem = tuple[Callable[[Any], Any], Any]  # a function and a point

CAMERA = 11  # rotation (3), centre (3), focal length, principal point (2), radial distortion (2)


def bundle_adjustment(
    torch: Any, cameras: int = 49, points: int = 7776, observations: int = 31843, seed: int = 0
) -> Problem:
    """Errors of reprojection, two for each observation of a point by a camera, times the weight of
    the observation; and an error of each weight. The defaults are the sizes of ADBench's smallest
    problem."""
    random = np.random.default_rng(seed)
    normal = random.standard_normal
    camera_values = np.concatenate([
        0.3 * normal((cameras, 3)), normal((cameras, 3)), random.uniform(500, 600, (cameras, 1)),
        5 * normal((cameras, 2)), 0.01 * normal((cameras, 2)),
    ], 1)  # fmt: skip
    point_values = normal((points, 3)) + np.array([0, 0, 8])
    weights = random.uniform(0.5, 1.5, observations)
    camera = torch.from_numpy(random.integers(0, cameras, observations))
    point = torch.from_numpy(random.integers(0, points, observations))
    features = torch.from_numpy(100 * normal((observations, 2)))
    first, second = CAMERA * cameras, CAMERA * cameras + 3 * points

    def errors(x: Any) -> Any:
        cams = x[:first].reshape(cameras, CAMERA)[camera]
        seen = x[first:second].reshape(points, 3)[point]
        weight = x[second:]
        turned = rotated(torch, cams[:, :3], seen - cams[:, 3:6])
        projected = turned[:, :2] / turned[:, 2:3]
        square = (projected**2).sum(1, keepdim=True)
        distortion = 1 + cams[:, 9:10] * square + cams[:, 10:11] * square * square
        error = projected * distortion * cams[:, 6:7] + cams[:, 7:9] - features
        return torch.cat([(weight[:, None] * error).reshape(-1), 1 - weight**2])

    x = np.concatenate([camera_values.reshape(-1), point_values.reshape(-1), weights])
    return errors, torch.from_numpy(x)


def rotated(torch: Any, rotation: Any, x: Any) -> Any:
    """Vectors turned about the axis and by the length of other vectors (Rodrigues' formula)."""
    angle = (rotation**2).sum(1, keepdim=True).sqrt()
    axis = rotation / angle
    cosine = torch.cos(angle)
    along = (axis * x).sum(1, keepdim=True) * (1 - cosine)
    return x * cosine + torch.linalg.cross(axis, x) * torch.sin(angle) + axis * along


BONES, FINGERS = 22, 5
ANGLES = 26  # of the whole hand: rotation (3) and position (3); of each finger: four


def hand_tracking(
    torch: Any, correspondences: int = 10_000, vertices: int = 544, seed: int = 0
) -> Problem:
    """Distances of points from the surface of a hand that is posed by 26 numbers. Each point
    belongs to a triangle of the surface, and two numbers of its own say where in the triangle: the
    problem that ADBench calls complicated."""
    random = np.random.default_rng(seed)
    table = lambda x: torch.from_numpy(np.ascontiguousarray(x))
    parents = [-1, 0, *[p for f in range(FINGERS) for p in (0, 2 + 4 * f, 3 + 4 * f, 4 + 4 * f)]]
    base = np.stack([_rigid(random) for _ in range(BONES)])
    absolute = np.empty_like(base)
    for bone, parent in enumerate(parents):
        absolute[bone] = base[bone] if parent < 0 else absolute[parent] @ base[bone]
    levels = _levels(parents)
    base_relatives, inverse = table(base), table(np.linalg.inv(absolute))
    homogeneous = np.ones((4, vertices))
    homogeneous[:3] = random.standard_normal((3, vertices))
    positions = table(homogeneous)
    weights = random.uniform(size=(BONES, vertices)) * (
        random.uniform(size=(BONES, vertices)) < 0.2
    )
    weights[0] += 0.01
    skin = table((weights / weights.sum(0))[:, None])
    triangles = table(random.integers(0, vertices, (correspondences, 3)))
    points = table(random.standard_normal((correspondences, 3)))
    # Which number each angle of a bone is: one of the pose, or, at the end, zero.
    angles = table(np.array(_angles()))
    unit = table(np.tile(np.array([[0.0, 0.0, 0.0, 1.0]]), (BONES, 1, 1)))
    corner = table(np.zeros((BONES, 3, 1)))
    zero = table(np.zeros(1))

    def distances(x: Any) -> Any:
        us, pose = x[:-ANGLES].reshape(-1, 2), x[-ANGLES:]
        turn = torch.cat([pose[6:], zero])[angles]
        rotation = torch.cat([euler(torch, turn), corner], 2)
        relative = base_relatives @ torch.cat([rotation, unit], 1)
        placed: list[Any] = [None] * BONES
        for level in levels:
            own = relative[level]
            if parents[level[0]] >= 0:
                own = torch.stack([placed[parents[b]] for b in level]) @ own
            for b, matrix in zip(level, own.unbind(0), strict=True):
                placed[b] = matrix
        moved = (torch.stack(placed) @ inverse)[:, :3] @ positions
        skinned = (moved * skin).sum(0)
        surface = (rotated(torch, pose[None, :3], skinned.T) + pose[3:6])[triangles]
        first, second = us[:, :1], us[:, 1:]
        where = first * surface[:, 0] + second * surface[:, 1]
        return (points - (where + (1 - first - second) * surface[:, 2])).reshape(-1)

    start = 0.3 * random.standard_normal(ANGLES)
    us = random.uniform(0, 0.5, 2 * correspondences)
    return distances, torch.from_numpy(np.concatenate([us, start]))


def _angles() -> list[list[int]]:
    """For each bone its three angles: fingers bend at four bones, and turn at the first as well."""
    none = ANGLES - 6
    found = [[none] * 3, [none] * 3]
    for finger in range(FINGERS):
        first = 4 * finger
        found += [[first, first + 1, none], [first + 2, none, none], [first + 3, none, none],
                  [none] * 3]  # fmt: skip
    return found


def _levels(parents: list[int]) -> list[list[int]]:
    """The bones whose parents are in the level before."""
    depth = [0] * len(parents)
    for bone, parent in enumerate(parents):
        depth[bone] = 0 if parent < 0 else depth[parent] + 1
    return [[b for b, d in enumerate(depth) if d == level] for level in range(max(depth) + 1)]


def _rigid(random: np.random.Generator) -> np.ndarray:
    found = np.eye(4)
    found[:3, :3], _ = np.linalg.qr(random.standard_normal((3, 3)))
    found[:3, 3] = random.standard_normal(3)
    return found


def euler(torch: Any, angles: Any) -> Any:
    """Matrices that turn about the three axes, one after the other."""
    sine, cosine = torch.sin(angles), torch.cos(angles)
    a, b, c = sine.unbind(1)
    d, e, f = cosine.unbind(1)
    rows = [
        e * f, a * b * f - d * c, d * b * f + a * c,
        e * c, a * b * c + d * f, d * b * c - a * f,
        -b, a * e, d * e,
    ]  # fmt: skip
    return torch.stack(rows, 1).reshape(-1, 3, 3)
