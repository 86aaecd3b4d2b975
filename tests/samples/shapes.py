"""Calls that change shapes, move, join, copy and convert."""

from samples._words import calls

SHAPES = [
    *calls("""
        mat.reshape(?) <- 6; 3, 2; (3, -1); -1; 1, 2, 3; 2, 3; torch.Size([6]); [6, 1]
        tran.reshape(?) <- 6; 3, 2; 2, 3; 2, 1, 3
        mat.view(?) <- 6; 3, 2; -1; (3, 2); 2, 3, 1
        step.view(?) <- 2, 3, 1; 2, 1, 3
        tran.t().view(6); mat.t().reshape(6); mat.t().reshape(2, 3); sc.reshape(1); sc.view(1, 1)
        one.reshape(()); one.view([]); none.view(3, 0); none.reshape(0, 7); sc.reshape(-1)
        torch.reshape(mat, (3, 2)); mat.view_as(mat3); mat.reshape_as(mat3)
        row.expand(2, 3).reshape(6); i.view(6)
        cube.flatten()
        cube.flatten(?) <- 1; 0, 1; -2; 1, 1; start_dim=1, end_dim=2; -3, -2
        sc.flatten(); vec.flatten(); btran.flatten(); btran.flatten(1); torch.flatten(mat)
        none.flatten(); cube.transpose(0, 1).flatten(0, 1)
        cube.transpose(?) <- 0, 1; -1, 0; 2, 2; dim0=0, dim1=2
        sc.transpose(0, 0); sc.transpose(-1, 0); mat.t(); vec.t(); sc.t(); mat.T; cube.mT; mat.mT
        mat.H; cube.mH; mat.mH; i.mH; torch.t(mat); torch.transpose(mat, 0, 1); vec.T
        cube.permute(?) <- 2, 0, 1; (0, -1, 1); 0, 1, 2; [1, 2, 0]
        sc.permute(()); torch.permute(mat, (1, 0))
        cube.movedim(?) <- 0, 2; -1, 0; (0, 1), (1, 2); [2, 0], [0, 1]; 1, 1
        torch.movedim(mat, 0, 1); torch.moveaxis(mat, 0, 1); cube.swapaxes(0, 1)
        row.expand(?) <- 2, 3; (4, 3); 5, -1, 3; -1, 3; 2, -1, -1; 1, 3; 0, 3
        sc.expand(2, 3); sc.expand(()); sc.expand(0); col.expand(2, 3); col.expand(2, 0)
        one.expand(2, 3); mat.expand(4, 2, 3); col.expand_as(mat); torch.broadcast_to(vec, (2, 3))
        vec.broadcast_to((2, 3)); tran.expand(2, 2, 3); mat.expand(0, 2, 3); none.expand(2, 0, 3)
        four.squeeze()
        four.squeeze(?) <- 1; 0; -3; (0, 1); [1]; dim=1; ()
        one.squeeze(); one.squeeze(0); sc.squeeze(); sc.squeeze(0); row.squeeze(-2)
        torch.squeeze(row); none.squeeze(); mat.squeeze(); cube1.transpose(0, 2).squeeze(2)
        mat.unsqueeze(?) <- 0; 1; 2; -1; -3; dim=1
        sc.unsqueeze(0); sc.unsqueeze(-1); tran.unsqueeze(1); torch.unsqueeze(vec, 0)
        none.unsqueeze(0)
        torch.cat(?) <- [mat, mat2]; (mat, mat2), 1; [mat, tran], -1; [mat, mat]; [vec, empty]
        torch.cat(?) <- [empty, mat]; [mat, empty, mat2], 1; [mat, none]; [vec]; [mat, i]
        torch.cat(?) <- [i, iv[None]]; [f32, f64]; [vec, f32]; [i32, u8]; [empty, empty]
        torch.cat(?) <- [gap, mat, gap], 1; [c64, vec]; [none, none]; [f16, iv]; [mat, row], dim=0
        torch.cat(?) <- [col, mat], 1; [vec, fsc[None]]; [k, k], 1; [gap, gap]; [step, row]
        torch.cat(?) <- [iempty, vec]
        torch.stack(?) <- [mat, mat2]; (mat, mat2), 1; [mat, tran], -1; [mat, mat2, mat], 2
        torch.stack(?) <- [sc, sc2]; [vec]; [none, none], 1; [iv, f32]; [vec, f64]; [sc, isc]
        torch.stack(?) <- [mat, mat2], dim=-3; [kv, kv]
        torch.concat([mat, mat2]); torch.concatenate([mat, mat2], 1)
        mat.split(?) <- 1; 2, 1; 3, dim=1; 5, 1; [1, 2], 1; [2, 0, 1], -1; (1, 1); 2, -1
        none.split(2); torch.split(tran, 2, 1); none.split(0); cube.split([1, 2], 1)
        vec.split([3, 0])
        mat.chunk(?) <- 2; 2, 1; 5, 1; 1; 3, -1
        torch.chunk(vec, 2); none.chunk(2); gap.chunk(2, 1)
        cube.unbind()
        cube.unbind(?) <- 1; -1; dim=2
        torch.unbind(tran, 1); none.unbind(); gap.unbind(1); vec.unbind()
        cube.select(?) <- 0, 1; -1, 0; 1, -1; dim=2, index=1
        torch.select(tran, 0, 1); vec.select(0, -3)
        cube.narrow(?) <- 1, 0, 2; -1, 1, 1; 1, 3, 0; 1, -2, 2; 0, 0, 2
        torch.narrow(tran, 1, 1, 2); mat.flip(0); mat.flip(0, 1); mat.flip((1,))
        torch.flip(cube, (0, -1)); sc.flip(()); mat.contiguous(); tran.contiguous()
        mat.cpu(); sc.cpu()
    """),
]  # fmt: skip
COPIES = [
    *calls("""
        mat.clone(); tran.clone(); sc.clone(); none.clone(); i.clone(); torch.clone(mat)
        mat.to(?) <- torch.float32; torch.float64; torch.complex64; torch.complex128; mat2; f64
        mat.to(?) <- torch.float16; 'cpu'; dtype=torch.float64
        i.to(?) <- torch.float32; torch.bool; torch.uint8; torch.complex64; torch.int32
        k.to(torch.float32)
        mat.?() <- double; float; half; cdouble
        i.?() <- float; double; bool; int; short; char; byte
        vec.type_as(f64); mat.to(torch.float64, copy=True); mat.to(torch.complex128).abs()
        f64.to(torch.float32); mat.type(torch.float64)
        mat.equal(mat2); mat.equal(mat); f64.half().cfloat(); i.cfloat()
    """),
]  # fmt: skip
BITS = [
    *calls("""
        i.view(torch.float64); f32.view(torch.int32); f64.view(torch.float32); f64.view(torch.int32)
        f32[:2].view(torch.float64); c64.view(torch.float32); i.view(torch.int16)
        k.view(torch.uint8)
        f16.view(torch.int16); fsc.view(torch.int64); i.view(dtype=torch.float64)
        mat.view(mat.dtype)
        mat.view(torch.float32); sc.view(torch.int64) if sc.element_size() == 8 else sc
        written(i.clone(), lambda z: z.view(torch.int32), 'zero_')
        torch.broadcast_shapes((2, 1), (3,)); torch.broadcast_shapes(2, (3, 1))
        torch.broadcast_shapes((1,), (0,))
        torch.tril_indices(?) <- 3, 3; 2, 4, 1; 4, 2, -1; 0, 3; 3, 3, offset=1
        torch.tril_indices(?) <- 3, 3, dtype=torch.int32
        torch.tril_indices(?) <- row=2, col=3; 3, 3, -5; 2, 2, 9
        torch.triu_indices(?) <- 3, 3; 2, 4, 1; 4, 2, -1; 0, 3; 3, 3, offset=1
        torch.triu_indices(?) <- 3, 3, dtype=torch.int32
        torch.triu_indices(?) <- 3, 3, 5; 3, 3, -9
    """),
]  # fmt: skip
IN_PLACE = [
    *calls("""
        four.clone().? <- squeeze_(); squeeze_(1); squeeze_((0, 1)); squeeze_(0)
        mat.clone().? <- squeeze_(); unsqueeze_(1); unsqueeze_(-1); t_(); transpose_(0, 1)
        mat.clone().? <- swapaxes_(0, 1); swapaxes_(axis0=0, axis1=1); swapdims_(0, -1)
        mat.clone().? <- t_().mul_(2); unsqueeze_(0).squeeze_()
        i.clone().? <- t_(); unsqueeze_(0); transpose_(0, 1)
        tran.clone().t_(); sc.clone().unsqueeze_(0); vec.clone().t_(); sc.clone().squeeze_()
        (mat * 2).t_() * mat3; mat.sin().t_()[0] * vec2; mat.clone().t_().add_(mat3).t_()
        written(mat.clone(), lambda z: z.t_(), 'mul_', 3)
        written(mat.clone(), lambda z: z[0].unsqueeze_(0), 'mul_', 3)
        written(cube.clone(), lambda z: z[0].t_(), 'mul_', mat3.t()); cube.clone()[0].t_() * tran
    """),
]  # fmt: skip
NAMED = [
    *calls("""
        torch.flip(mat, dims=[0]); mat.flip(dims=(0, 1)); torch.flip(input=mat, dims=(1,))
        torch.permute(mat, dims=(1, 0)); mat.permute(dims=(1, 0)); mat.view(size=(3, 2))
        torch.reshape(mat, shape=(3, 2)); mat.reshape(shape=(6,)); tran.reshape(shape=(-1,))
        row.expand(size=(2, 3)); row.expand(size=(4, -1, -1)); mat.repeat(repeats=(2, 1))
        torch.tile(row, dims=(2, 1)); row.tile(dims=(2,)); mat.sum_to_size(size=(1, 3))
        torch.squeeze(row, dim=0); row.squeeze(dim=(0,))
        torch.moveaxis(mat, source=0, destination=1); torch.movedim(mat, source=0, destination=1)
        mat.movedim(source=(0, 1), destination=(1, 0)); mat.transpose(dim0=0, dim1=1)
        torch.transpose(mat, dim0=0, dim1=1); torch.swapaxes(mat, axis0=0, axis1=1)
        mat.swapaxes(axis0=0, axis1=1); torch.swapdims(mat, dim0=0, dim1=1)
        torch.split(mat, split_size_or_sections=1); mat.split(split_size=1, dim=1)
        torch.split(tensor=mat, split_size_or_sections=[1, 2], dim=1); mat.split(split_size=[1, 1])
        torch.chunk(mat, chunks=2, dim=0); mat.chunk(chunks=3, dim=1); mat.unbind(dim=1)
        torch.unbind(mat, dim=0); torch.roll(mat, shifts=1, dims=0); mat.roll(shifts=1, dims=(1,))
        torch.broadcast_to(row, size=(2, 3)); mat.unflatten(dim=1, sizes=(3, 1))
        mat.select(dim=0, index=1); mat.narrow(dim=1, start=0, length=2); mat.unsqueeze(dim=0)
        torch.cat(tensors=[mat, mat2], dim=1); torch.stack(tensors=[vec, vec], dim=-1)
        mat.expand_as(other=mat2); mat.view_as(other=mat3); mat.flatten(start_dim=0, end_dim=1)
        torch.detach(mat); torch.detach_(mat * 2); [mat.ndimension(), mat.get_device()]
        [mat.is_cpu, mat.is_cuda, mat.is_sparse, mat.is_meta, mat.layout == torch.strided]
        torch.get_device(mat)
    """),
]  # fmt: skip
GROUPS = {
    "shapes": SHAPES, "copies": COPIES, "bits": BITS, "in_place": IN_PLACE, "named": NAMED,
}  # fmt: skip
ERRORS = [
    *calls("""
        torch.narrow(mat, ?) <- 1, 1., 1; 1, 0, 1.; 1., 0, 1; 1, True, 1; 1, '0', 1; 1, None, 1
        mat.narrow(1, sc.detach(), 1); mat.narrow(1, iv[:1], 1); mat.narrow(1, ksc, 1)
        mat.reshape(?) <- 4; -1, -1; 5, -1; -2, 3; 0, -1; 2, 2
        mat.view(?) <- 4; -1, -1; 7, -1
        tran.view(6); tran.view(3, 2); none.reshape(-1, 0); none.view(-1, 0); mat.flatten(1, 0)
        mat.flatten(2); mat.flatten(0, 5); sc.flatten(1); cube.t(); mat.transpose(0, 2)
        mat.transpose(-3, 0); sc.transpose(0, 1); mat.permute(0); mat.permute(0, 0)
        mat.permute(0, 2); mat.permute(0, 1, 2); mat.movedim(0, 2); mat.movedim((0, 1), 0)
        mat.movedim((0, 0), (0, 1)); mat.movedim((0, 1), (1, 1)); mat.expand(3, 3); mat.expand(3)
        mat.expand(-1, 2, 3); row.expand(2, -2); vec.expand(2, 4); torch.broadcast_to(vec, (2,))
        mat.unsqueeze(3); mat.unsqueeze(-4); mat.squeeze(2); mat.squeeze((0, 0))
        mat.squeeze((0, 5)); torch.cat([]); torch.cat([sc, sc2]); torch.cat([vec, sc])
        torch.cat([mat, mat3]); torch.cat([mat, vec]); torch.cat([mat, mat2], 2)
        torch.cat([mat, cube]); torch.cat([mat, mat3], 1); torch.cat([none, mat3])
        torch.cat([mat, 2]); torch.stack([]); torch.stack([mat, mat3])
        torch.stack([mat, mat2], 3); torch.stack([vec, vec2]); torch.stack([mat, mat2], -4)
        torch.cat(mat); mat.split(0); mat.split(-1); mat.split([1, 3]); mat.split([3, -1])
        mat.split(1, 2); sc.split(1); mat.chunk(0); mat.chunk(-1); mat.chunk(2, 2); sc.chunk(2)
        mat.unbind(2); sc.unbind(); mat.select(0, 2); mat.select(2, 0); mat.select(-1, -4)
        sc.select(0, 0); mat.narrow(0, 1, 2); mat.narrow(0, 3, 0); mat.narrow(0, -3, 1)
        mat.narrow(0, 0, -1); mat.narrow(2, 0, 1); sc.narrow(0, 0, 1); mat.flip(2); mat.flip(0, 0)
        torch.view_as_complex(mat); torch.view_as_real(f32)
        f32.view(torch.float64); fsc.view(torch.int32); i.t().view(torch.int32)
        isc.view(torch.int32)
        i32.view(torch.int64); i[:, ::2].view(torch.int32)
        torch.broadcast_shapes((2, 3), (3, 2)); torch.broadcast_shapes((-1,))
        torch.broadcast_shapes((2, 3), (2,)); torch.tril_indices(-1, 2); torch.triu_indices(2, -1)
        mat.clone().unsqueeze_(5); mat.clone().transpose_(0, 2); mat.squeeze_(); mat.t_()
        mat.expand(4, 5); mat.expand(-2, 4); mat.expand(-1, -1, 4); torch.flip(mat)
    """),
]  # fmt: skip
ROUGH = {r"\.half|\.float": "too narrow for differences"}
