import pytest
import torch
from example_files import load

from walkback.errors import InputError
from walkback.watch.trace import read_trace

pytestmark = pytest.mark.filterwarnings("ignore")  # transformers and accelerate warn of their own dependencies


@pytest.fixture(scope="module")
def example():
    return load("05_transformers")


def test_a_real_trainer_is_stopped_by_a_bad_learning_rate_and_not_by_a_good_one(example, tmp_path):
    ended = example.main(tmp_path)
    state, decision = ended[1e-3]
    assert decision.action == "continue"
    assert state.global_step == state.max_steps
    state, decision = ended[0.1]
    assert decision.action == "stop"
    assert state.global_step < state.max_steps
    assert "residual stream exploded" in decision.reason
    (last,) = read_trace(tmp_path / "lr_0.1.jsonl")[-1:]
    assert last.action == "stop"
    assert last.accuracy is not None


def trained(example, folder, epochs=2, save="no", resume=None, **settings):
    from transformers import Trainer, TrainingArguments, ViTConfig, ViTForImageClassification

    from walkback.integrations.transformers import WalkbackCallback

    torch.manual_seed(0)
    config = ViTConfig(
        image_size=16, patch_size=8, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16,
        num_labels=4,
    )  # fmt: skip
    args = TrainingArguments(
        output_dir=str(folder), num_train_epochs=epochs, learning_rate=1e-3, per_device_train_batch_size=32,
        gradient_accumulation_steps=2, save_strategy=save, report_to=[], disable_tqdm=True, use_cpu=True, seed=0,
        dataloader_pin_memory=False,
    )  # fmt: skip
    callbacks = [WalkbackCallback(**settings)] if settings else []
    model = ViTForImageClassification(config)
    trainer = Trainer(model=model, args=args, train_dataset=example.Images(256, 1), callbacks=callbacks)
    trainer.train(resume_from_checkpoint=resume)
    return model, callbacks


def held(example):
    images = example.Images(128, 2)
    return [{"pixel_values": images.images, "labels": images.labels}]


def test_the_weights_are_the_same_bits_as_without_the_callback(example, tmp_path):
    plain, _ = trained(example, tmp_path)
    watched, _ = trained(example, tmp_path, batches=held(example), every=2, trace=tmp_path / "t")
    read, callbacks = trained(example, tmp_path, batches=held(example), every=1, read_training=True)
    for other in (watched, read):
        assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), other.parameters(), strict=True))
        assert not any(m._forward_hooks or m._forward_pre_hooks for m in other.modules())
    lines = read_trace(tmp_path / "t")
    assert [(line.epoch, line.step) for line in lines] == [(None, 2), (1.0, 4), (None, 6), (2.0, 8)]
    assert callbacks[0].monitor.report.samples == 128


def test_a_trainer_that_goes_on_from_a_checkpoint_goes_on_with_its_trace(example, tmp_path):
    settings = {"batches": held(example), "every": 1000, "trace": tmp_path / "t"}
    trained(example, tmp_path / "out", save="epoch", **settings)
    with pytest.raises(InputError, match="holds a run already"):
        trained(example, tmp_path / "out", **settings)
    trained(example, tmp_path / "out", epochs=3, resume=True, **settings)
    assert [line.epoch for line in read_trace(tmp_path / "t")] == [1.0, 2.0, 3.0]


def test_the_training_pass_of_a_trainer_shows_gradients_near_those_of_held_out_data(example, tmp_path):
    heard = []
    trained(
        example, tmp_path, batches=held(example), every=1, read_training=True,
        logs=[lambda line, decision: heard.append(line)],
    )  # fmt: skip
    passes = [line for line in heard if line.source == "training"]
    probes = [line for line in heard if line.source == "probe"]
    assert passes[0].samples == 64
    assert passes[-1].bp_grad_norms == pytest.approx(probes[-1].bp_grad_norms, rel=0.5)


def test_no_batches_at_all_is_said(example, tmp_path):
    with pytest.raises(InputError, match="no held-out batches"):
        trained(example, tmp_path, every=1000)


def test_a_language_model_is_scored_by_the_next_token(tmp_path):
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    from walkback.integrations.transformers import WalkbackCallback

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=32, n_positions=16, n_embd=16, n_layer=2, n_head=2, pad_token_id=0, bos_token_id=1, eos_token_id=1
    )
    model = GPT2LMHeadModel(config)
    texts = 4 * torch.randint(0, 8, (64, 1)) + torch.arange(12) % 4
    data = [{"input_ids": text, "labels": text} for text in texts]
    args = TrainingArguments(
        output_dir=str(tmp_path), num_train_epochs=3, learning_rate=2e-2, per_device_train_batch_size=16,
        per_device_eval_batch_size=64, eval_strategy="epoch", save_strategy="no", report_to=[], disable_tqdm=True,
        use_cpu=True, seed=0, dataloader_pin_memory=False,
    )  # fmt: skip
    watch = WalkbackCallback(every=1000)
    Trainer(model=model, args=args, train_dataset=data, eval_dataset=data, callbacks=[watch]).train()
    report = watch.monitor.report
    with torch.no_grad():
        said = model.eval()(input_ids=texts).logits.argmax(-1)
    accuracy, copied = ((a == b).double().mean() for a, b in ((said[:, :-1], texts[:, 1:]), (said, texts)))
    assert accuracy > 2 * copied  # so that the two cannot be taken for each other
    assert report.headline_acc == pytest.approx(float(accuracy), abs=1e-6)
    assert (report.samples, report.tokens) == (64, 64 * 11)
    assert "labels shifted by the model" in report.provenance["loss"]
